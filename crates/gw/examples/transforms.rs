//! Times the fused pass from a data set's rows to the network's input, on one thread, stage by stage.
//!
//! `cargo run --release -p dunnart-gw --example transforms`

#![allow(clippy::print_stdout, reason = "a program that prints measurements")]

use std::time::Instant;

use dunnart_gw::Antenna;
use dunnart_gw::pipeline::{Basis, DetectorDraw, Draw, Fused, Grid, Layout, Observer, Rows, Stage};
use dunnart_random::{Key, Purpose};

const STAGES: [Stage; 4] = [
    Stage::Prepare,
    Stage::Decompress,
    Stage::Noise,
    Stage::Finish,
];

/// Seconds since the last stage, added up by stage.
struct Clock {
    last: Instant,
    seconds: [f64; 4],
}

impl Observer for Clock {
    fn done(&mut self, stage: Stage) {
        let now = Instant::now();
        self.seconds[stage as usize] += (now - self.last).as_secs_f64();
        self.last = now;
    }
}

struct Shape {
    name: &'static str,
    step: f64,
    bins: usize,
    first: usize,
    size: Option<usize>,
    detectors: usize,
    batch: usize,
}

fn pairs(index: u64, count: usize, factor: f32) -> Vec<[f32; 2]> {
    let mut values = vec![0.0; 2 * count];
    Key::new(1, Purpose::Benchmark)
        .stream(index)
        .fill_normal_f32(&mut values);
    values
        .as_chunks()
        .0
        .iter()
        .map(|pair: &[f32; 2]| pair.map(|x| x * factor))
        .collect()
}

/// The fused pass and the inputs of one batch.
fn time(shape: &Shape) -> Option<()> {
    let grid = Grid::uniform(shape.step, shape.bins, shape.first)?;
    let (kept, rows) = (grid.kept(), shape.batch * shape.detectors);
    let basis = match shape.size {
        Some(size) => {
            let v = pairs(1, kept * size, 0.01);
            Some(Basis::new(&v, (kept, size), size, None)?)
        }
        None => None,
    };
    let fused = Fused::new(&grid, basis, shape.detectors)?;
    let (plus, cross) = (
        pairs(2, shape.batch * fused.width(), 1e-23),
        pairs(3, shape.batch * fused.width(), 1e-23),
    );
    // A hundred spectra, as many as a small data set has.
    let spectra: Vec<Vec<f32>> = (0..100).map(|i| vec![1.0 + i as f32; kept]).collect();
    let draws: Vec<DetectorDraw<'_>> = (0..rows)
        .map(|row| DetectorDraw {
            antenna: Antenna {
                plus: 0.3,
                cross: -0.2,
            },
            time: 1e-3 * row as f64,
            inverse_asd: &spectra[row % 100],
        })
        .collect();
    let samples: Vec<u64> = (0..shape.batch as u64).collect();
    let mut output = vec![0.0; shape.batch * fused.row_size(Layout::Network)];
    let rows = Rows {
        plus: &plus,
        cross: &cross,
    };
    let draw = |epoch| {
        Some(Draw {
            seed: 1,
            stage: 0,
            epoch,
        })
    };
    let mut best = f64::INFINITY;
    for epoch in 0..30 {
        let start = Instant::now();
        let target = (Layout::Network, output.as_mut_slice());
        fused.run(&samples, rows, &draws, draw(epoch), target, &mut ());
        best = best.min(start.elapsed().as_secs_f64());
    }
    let mut stages = [f64::INFINITY; 4];
    for epoch in 0..30 {
        let mut clock = Clock {
            last: Instant::now(),
            seconds: [0.0; 4],
        };
        let target = (Layout::Network, output.as_mut_slice());
        fused.run(&samples, rows, &draws, draw(epoch), target, &mut clock);
        for (best, seconds) in stages.iter_mut().zip(clock.seconds) {
            *best = best.min(seconds);
        }
    }
    let batch = shape.batch as f64;
    println!(
        "{}: {} detectors, {kept} of {} bins, {}, batch {}, one thread",
        shape.name,
        shape.detectors,
        shape.bins,
        shape
            .size
            .map_or("not compressed".into(), |size| format!("SVD {size}")),
        shape.batch,
    );
    for (stage, seconds) in STAGES.iter().zip(stages) {
        let rate = match stage {
            Stage::Decompress => shape.size.map_or(String::new(), |size| {
                let rows = shape.detectors.min(2) * shape.batch;
                let operations = (8 * rows * size * kept) as f64;
                format!("{:8.1} GFLOP/s", operations / seconds / 1e9)
            }),
            Stage::Noise => {
                let normals = (2 * shape.detectors * shape.batch * kept) as f64;
                format!("{:8.2} ns a normal", seconds / normals * 1e9)
            }
            Stage::Finish => {
                format!(
                    "{:8.2} GB/s written",
                    (4 * output.len()) as f64 / seconds / 1e9
                )
            }
            _ => String::new(),
        };
        let name = format!("{stage:?}").to_lowercase();
        println!(
            "  {name:<12} {:.4} ms a sample {rate}",
            seconds / batch * 1e3
        );
    }
    println!(
        "  {:<12} {:.4} ms a sample",
        "whole pass",
        best / batch * 1e3
    );
    Some(())
}

fn main() {
    let shapes = [
        Shape {
            name: "npe_model",
            step: 0.125,
            bins: 8193,
            first: 160,
            size: Some(200),
            detectors: 2,
            batch: 64,
        },
        Shape {
            name: "shipped",
            step: 0.25,
            bins: 2049,
            first: 80,
            size: Some(48),
            detectors: 2,
            batch: 64,
        },
        Shape {
            name: "shipped with proxies",
            step: 0.125,
            bins: 1793,
            first: 160,
            size: None,
            detectors: 3,
            batch: 64,
        },
    ];
    for shape in &shapes {
        if time(shape).is_none() {
            println!("{}: these shapes do not fit together", shape.name);
        }
    }
}
