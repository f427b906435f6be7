//! The machine a benchmark runs on, in words.

use serde::Serialize;

/// What decides how fast this machine is.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Model of the processor.
    processor: String,
    /// Processors the operating system shows.
    cores: usize,
    /// Widest vector instructions.
    vectors: &'static str,
    /// Memory in GiB.
    memory_gib: f64,
    /// Load average of the last minute when the benchmark began: above 0.5, other work ran.
    load: f64,
}

/// Value of a `key: value` line of a file of the operating system; empty where there is none.
fn field(file: &str, key: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(key));
    line.and_then(|line| line.split_once(':'))
        .map_or(String::new(), |(_, v)| v.trim().to_owned())
}

impl Machine {
    /// Looks at the machine.
    pub(crate) fn look() -> Self {
        let memory = field("/proc/meminfo", "MemTotal");
        let kilobytes: f64 = memory
            .split_whitespace()
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0.0);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            vectors: vectors(),
            memory_gib: (kilobytes / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            load: load
                .split_whitespace()
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0.0),
        }
    }

    /// One line about the machine.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}, {} cores, {}, {} GiB, load {:.2} at the start",
            self.processor, self.cores, self.vectors, self.memory_gib, self.load
        )
    }
}

#[cfg(target_arch = "x86_64")]
fn vectors() -> &'static str {
    if is_x86_feature_detected!("avx512f") {
        "AVX-512"
    } else if is_x86_feature_detected!("avx2") {
        "AVX2"
    } else {
        "SSE2"
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> &'static str {
    std::env::consts::ARCH
}
