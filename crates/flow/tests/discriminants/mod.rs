//! Networks of one spline in whose inverse the discriminant of single float32 rows is negative.

use dunnart_flow::structure::Conditioner;
use dunnart_flow::{Architecture, Layout, NetworkState};
use serde_json::json;

/// A spline and a value whose inverse has a negative discriminant in float32.
pub(crate) struct Discriminant {
    bound: f64,
    bins: usize,
    /// Logits of widths, heights and derivatives.
    logits: &'static [f64],
    y: f32,
    /// The inverse, computed in float64.
    x: f64,
}

/// Rows on either side of the value: the exact rounding is the machine's.
const NEIGHBOURS: i32 = 64;

/// Width of the conditioner; its square root, by which logits are divided, is exact.
const HIDDEN: usize = 4;

pub(crate) const DISCRIMINANTS: [Discriminant; 3] = [
    Discriminant {
        bound: 1.0,
        bins: 4,
        logits: &[-4.9, 0.2, -2.9, 2.3, 3.7, 3.2, -3.1, -3.5, -3.3, -3.3, -1.2],
        y: 0.240_504_73,
        x: -0.996_683_061_4,
    },
    Discriminant {
        bound: 3.0,
        bins: 4,
        logits: &[-4.2, 0.5, 1.8, 6.3, -0.8, 4.6, 1.3, -4.3, 1.8, -2.5, 0.6],
        y: 2.775_593_5,
        x: -2.969_999_333_1,
    },
    Discriminant {
        bound: 5.0,
        bins: 8,
        logits: &[
            0.9, 4.2, 0.0, -2.6, 1.8, 4.6, -0.3, -7.0, 1.6, -3.4, 0.4, 1.0, -1.6, -2.4, -5.3, 1.6,
            -1.9, 0.3, -6.5, 1.4, -4.8, -3.4, 0.4,
        ],
        y: -0.521_784_4,
        x: -1.027_457_322_3,
    },
];

impl Discriminant {
    /// A flow of two parameters whose second one passes through the spline, whatever the first is.
    pub(crate) fn network(&self) -> (Architecture, Layout, NetworkState<f32>) {
        let architecture = Architecture::from_json(&json!({"posterior_kwargs": {
            "input_dim": 2, "context_dim": null, "num_flow_steps": 1,
            "base_transform_kwargs": {
                "hidden_dim": HIDDEN, "num_transform_blocks": 1, "activation": "elu",
                "num_bins": self.bins, "tail_bound": self.bound,
                "base_transform_type": "rq-coupling"
            }
        }}))
        .unwrap();
        let layout = Layout::new(&architecture).unwrap();
        // Everything is zero: the conditioner's output is the bias of its last layer.
        let mut state = NetworkState::<f32>::blank(&architecture, &layout);
        let network = layout.network();
        let Conditioner::Residual(conditioner) = &network.steps[0].conditioner else {
            panic!("a coupling step without normalisation has a residual conditioner");
        };
        let scale = (HIDDEN as f64).sqrt();
        let scaled = |(i, u): (usize, &f64)| {
            let factor = if i < 2 * self.bins { scale } else { 1.0 };
            (u * factor) as f32
        };
        let one: Vec<f32> = self.logits.iter().enumerate().map(scaled).collect();
        let features = network.steps[0].transformed.len();
        let bias = &layout.parameters()[conditioner.last.bias];
        state.set_parameter(bias, &one.repeat(features)).unwrap();
        // softplus(u) + 0.001 = 1: the linear transforms are the identity.
        let one = 0.999_f64.exp_m1().ln() as f32;
        for linear in [&network.steps[0].linear, &network.last] {
            let diagonal = &layout.parameters()[linear.diagonal];
            state.set_parameter(diagonal, &[one; 2]).unwrap();
        }
        (architecture, layout, state)
    }

    /// The value and its neighbours in both columns, with ordinary rows between them.
    pub(crate) fn noise(&self) -> Vec<f32> {
        (-NEIGHBOURS..=NEIGHBOURS)
            .flat_map(|steps| {
                let mut y = self.y;
                for _ in 0..steps.unsigned_abs() {
                    y = if steps > 0 {
                        y.next_up()
                    } else {
                        y.next_down()
                    };
                }
                [y, y, 0.1, -0.2]
            })
            .collect()
    }

    /// All rows are finite, the known ones are the spline's inverse or passed.
    pub(crate) fn check(&self, what: &str, theta: &[f32], log_prob: &[f32]) {
        assert!(
            log_prob.iter().all(|v| v.is_finite()),
            "{what}: {log_prob:?}"
        );
        for row in theta.chunks_exact(4) {
            assert!(row.iter().all(|v| v.is_finite()), "{what}: {row:?}");
            // The inverse of a value where the slope vanishes is known to half its digits.
            let known = |v: f32| (f64::from(v) - self.x).abs() < 2e-3 * self.bound;
            assert!(known(row[0]) || known(row[1]), "{what}: {row:?} {}", self.x);
        }
    }
}
