//! Compiles the C++ half against the libtorch that torch-sys was built with, so that both always agree on headers and library.

#![allow(clippy::print_stdout)] // Printing is how a build script talks to cargo.

use std::{env, path::PathBuf};

const SOURCES: [&str; 3] = ["cpp/operations.cpp", "cpp/autograd.cpp", "cpp/memory.cpp"];

fn main() {
    // torch-sys declares `links = "tch"` and hands its library folder on under this name.
    let Some(library) = env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from) else {
        println!(
            "cargo::error=torch-sys did not say where libtorch lies; hint: run `cargo xtask doctor`"
        );
        return;
    };
    let include = library.parent().unwrap_or(&library).join("include");
    cc::Build::new()
        .cpp(true)
        .pic(true)
        .std("c++17")
        .warnings(false)
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        .include(&include)
        .include(include.join("torch/csrc/api/include"))
        // Thin wrappers gain nothing from more, and the headers' templates cost build time.
        .opt_level(1)
        .files(SOURCES)
        .compile("dunnart_shim");
    println!("cargo::rerun-if-changed=cpp");
    println!("cargo::rustc-link-search=native={}", library.display());
    println!("cargo::rustc-link-lib=dylib=torch_cpu");
    println!("cargo::rustc-link-lib=dylib=c10");
}
