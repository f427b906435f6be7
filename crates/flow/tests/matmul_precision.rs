//! The precision of matrix products is one for the whole process, hence a binary of its own.

#![cfg(feature = "torch")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with the binary `eager`")]
#[path = "eager/support.rs"]
mod support;

use dunnart_flow::NetworkState;
use dunnart_flow::eager::SplinePath;
use dunnart_torch_shim::{MatmulPrecision, matmul_precision, set_matmul_precision};
use serde_json::json;

use crate::support::{close, flow, largest, normals, wide};

/// Restores the precision of matrix products when a test ends.
struct Restore(MatmulPrecision);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = set_matmul_precision(self.0);
    }
}

/// With identity splines only the LU transforms compute, and they are exact in every setting.
#[test]
fn coarse_matrix_products_leave_the_lu_transform_alone() {
    let _restore = Restore(matmul_precision().unwrap());
    let setup = flow(15, 2, 3, &json!({"identity_init": true}));
    let mut state = NetworkState::<f32>::initialize(&setup.architecture, &setup.layout, 3);
    for (index, spec) in setup.layout.parameters().iter().enumerate() {
        if spec.name.ends_with("_entries") {
            let values = normals::<f32>(index as u64, spec.elements());
            let values: Vec<f32> = values.iter().map(|v| 0.3 * v).collect();
            state.set_parameter(spec, &values).unwrap();
        }
    }
    let storage = setup.storage(&state);
    let evaluation = setup
        .network(SplinePath::Fused)
        .evaluation(&storage)
        .unwrap();
    let batch = setup.batch::<f32>(&(0..64).collect::<Vec<u64>>());
    let noise = || {
        let (noise, _) = evaluation.noise(&batch).unwrap();
        let context = evaluation.embed(&batch).unwrap();
        let (theta, _) = evaluation.sample(&noise, context.as_ref()).unwrap();
        (wide(&noise), wide(&theta))
    };
    set_matmul_precision(MatmulPrecision::Highest).unwrap();
    let exact = noise();
    for precision in [MatmulPrecision::High, MatmulPrecision::Medium] {
        set_matmul_precision(precision).unwrap();
        let coarse = noise();
        let bound = 1e-5 * largest(&exact.0);
        close("noise", &coarse.0, &exact.0, bound);
        // Where a processor ignores the setting, only other last digits show the float64 products.
        assert_ne!(coarse.0, exact.0, "{precision:?}");
        close("parameters", &coarse.1, &exact.1, 1e-4 * largest(&exact.1));
    }
}
