//! Point 34: one negative discriminant among many rows neither stops sampling nor makes a row NaN.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod discriminants;

use discriminants::DISCRIMINANTS;
use dunnart_flow::plan::Sampler;

#[test]
fn point_34_a_negative_discriminant_neither_stops_sampling_nor_spreads() {
    for case in &DISCRIMINANTS {
        let (architecture, layout, state) = case.network();
        let sampler = Sampler::new(&architecture, &layout, &state).unwrap();
        let noise = case.noise();
        let rows = noise.len() / 2;
        let (mut theta, mut log_prob) = (vec![0.0; noise.len()], vec![0.0; rows]);
        sampler
            .prepare(&[])
            .unwrap()
            .inverse(&noise, &mut theta, &mut log_prob)
            .unwrap();
        case.check("native", &theta, &log_prob);
    }
}
