//! The LU transform: its log-det is counted once, and is that of its matrix.

use dunnart_flow::NetworkState;
use dunnart_flow::eager::SplinePath;
use serde_json::json;
use tch::Tensor;

use crate::support::{close, flow, largest, normals, wide};

/// ln |det| of a dense matrix, by elimination with pivots.
pub(crate) fn log_determinant(mut m: Vec<f64>, d: usize) -> f64 {
    let mut total = 0.0;
    for column in 0..d {
        let pivot = (column..d)
            .max_by(|&a, &b| m[a * d + column].abs().total_cmp(&m[b * d + column].abs()))
            .unwrap();
        for k in 0..d {
            m.swap(column * d + k, pivot * d + k);
        }
        let value = m[column * d + column];
        total += value.abs().ln();
        for row in column + 1..d {
            let factor = m[row * d + column] / value;
            for k in column..d {
                m[row * d + k] -= factor * m[column * d + k];
            }
        }
    }
    total
}

/// With identity splines the flow is one affine map, whose matrix can be read off it.
#[test]
fn case_20_the_log_det_of_every_row_is_that_of_the_dense_matrix() {
    for d in 1..=15 {
        for floor in [false, true] {
            let setup = flow(d, 2, 2, &json!({"identity_init": true}));
            let mut state = NetworkState::<f64>::initialize(&setup.architecture, &setup.layout, 11);
            for (index, spec) in setup.layout.parameters().iter().enumerate() {
                let entries = ["lower_entries", "upper_entries", "unconstrained_upper_diag"];
                if entries.iter().any(|end| spec.name.ends_with(end)) {
                    let mut values = normals::<f64>(index as u64, spec.elements());
                    if floor && spec.name.ends_with("diag") {
                        // softplus(-30) vanishes against the floor of 1e-3.
                        values[0] = -100.0;
                    }
                    values.iter_mut().for_each(|v| *v *= 0.3);
                    state.set_parameter(spec, &values).unwrap();
                }
            }
            let storage = setup.storage(&state);
            for path in [SplinePath::Fused, SplinePath::Tensor] {
                let evaluation = setup.network(path).evaluation(&storage).unwrap();
                let samples: Vec<u64> = (0..d as u64 + 1).collect();
                let mut batch = setup.batch::<f64>(&samples);
                let mut rows = vec![0.0; (d + 1) * d];
                (0..d).for_each(|i| rows[(i + 1) * d + i] = 1.0);
                batch.theta = Tensor::from_slice(&rows).reshape([d as i64 + 1, d as i64]);
                let (noise, log_det) = evaluation.noise(&batch).unwrap();
                let noise = wide(&noise);
                let matrix = (0..d * d)
                    .map(|e| noise[(e % d + 1) * d + e / d] - noise[e / d])
                    .collect();
                let expected = log_determinant(matrix, d);
                // A diagonal at its floor costs the dense determinant, not ours, three digits a layer.
                let bound = if floor { 1e-6 } else { 1e-9 };
                close("log-det", &wide(&log_det), &vec![expected; d + 1], bound);
                let context = evaluation.embed(&batch).unwrap();
                let noise = Tensor::from_slice(&noise).reshape([d as i64 + 1, d as i64]);
                let (theta, _) = evaluation.sample(&noise, context.as_ref()).unwrap();
                // A nearly singular transform magnifies what it is asked to undo, so the residual
                // is what a stable solve bounds.
                let size = largest(&wide(&theta)).max(1.0);
                batch.theta = theta;
                let (again, _) = evaluation.noise(&batch).unwrap();
                close("inverse", &wide(&again), &wide(&noise), 1e-11 * size);
            }
        }
    }
}
