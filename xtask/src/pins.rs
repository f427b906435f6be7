//! Everything that is fetched from elsewhere, with version and hash: moving on is a change of this file (and of `tch` in
//! `Cargo.toml`, which wants exactly one libtorch).

/// A wheel.
pub(crate) struct Wheel {
    /// Name and version.
    pub(crate) requirement: &'static str,
    /// Of the file for CPython 3.11 on x86-64 Linux.
    pub(crate) sha256: &'static str,
    /// What to take out of it: a file or a folder ending in `/`, and where that goes.
    pub(crate) takes: &'static [(&'static str, &'static str)],
}

/// Something that set-up puts in a folder of the clone.
pub(crate) struct Component {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its folder under the root, ignored by git.
    pub(crate) folder: &'static str,
    /// Its version.
    pub(crate) version: &'static str,
    /// What it is made of.
    pub(crate) wheels: &'static [Wheel],
    /// Files that must be there afterwards.
    pub(crate) needs: &'static [&'static str],
    /// Disk space for downloading and unpacking, in MB.
    pub(crate) megabytes: u64,
    /// To be raised when the way of making the folder changes.
    pub(crate) recipe: u32,
}

/// The crate that wants exactly this libtorch, and its version.
pub(crate) const TCH: &str = "0.24.0";

/// libtorch for CPUs, out of the wheel that also serves GPUs: the CUDA parts stay behind, save two small libraries that
/// `libtorch_cpu.so` is linked with.
pub(crate) const LIBTORCH: Component = Component {
    name: "libtorch",
    folder: ".libtorch",
    version: "2.11.0",
    wheels: &[
        Wheel {
            requirement: "torch==2.11.0",
            sha256: "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
            takes: &[
                ("torch/include/", "include/"),
                ("torch/lib/libtorch_cpu.so", "lib/libtorch_cpu.so"),
                ("torch/lib/libc10.so", "lib/libc10.so"),
                ("torch/lib/libgomp.so.1", "lib/libgomp.so.1"),
                ("torch-2.11.0.dist-info/licenses/LICENSE", "LICENSE"),
                ("torch-2.11.0.dist-info/licenses/NOTICE", "NOTICE"),
            ],
        },
        Wheel {
            requirement: "nvidia-cuda-cupti==13.0.85",
            sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
            takes: &[("nvidia/cu13/lib/libcupti.so.13", "lib/libcupti.so.13")],
        },
        Wheel {
            requirement: "nvidia-cuda-runtime==13.0.96",
            sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
            takes: &[("nvidia/cu13/lib/libcudart.so.13", "lib/libcudart.so.13")],
        },
    ],
    needs: &[
        "build-version",
        "include/ATen/ATen.h",
        "lib/libc10.so",
        "lib/libcudart.so.13",
        "lib/libcupti.so.13",
        "lib/libgomp.so.1",
        "lib/libtorch.so",
        "lib/libtorch_cpu.so",
    ],
    megabytes: 1_700,
    recipe: 1,
};

/// ONNX Runtime, in the version that the `ort` crate loads.
pub(crate) const ONNXRUNTIME: Component = Component {
    name: "ONNX Runtime",
    folder: ".onnxruntime",
    version: "1.32.0",
    wheels: &[Wheel {
        requirement: "onnxruntime==1.32.0",
        sha256: "5a34fc4dfeb5a7b4a74c95dcba1e773d722abda720b474edf1b0c419dc6d163d",
        takes: &[
            (
                "onnxruntime/capi/libonnxruntime.so.1.32.0",
                "lib/libonnxruntime.so",
            ),
            ("onnxruntime/LICENSE", "LICENSE"),
            ("onnxruntime/ThirdPartyNotices.txt", "ThirdPartyNotices.txt"),
        ],
    }],
    needs: &["build-version", "lib/libonnxruntime.so"],
    megabytes: 100,
    recipe: 1,
};

/// The wheels' CPython, and the platforms among which pip may choose.
pub(crate) const PYTHON: &str = "3.11";
/// See [`PYTHON`].
pub(crate) const PLATFORMS: [&str; 4] = [
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_25_x86_64",
    "manylinux2014_x86_64",
];

/// The dependency checker that `lint` builds once.
pub(crate) const CARGO_DENY: &str = "0.20.2";
