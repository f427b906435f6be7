//! Adam and AdamW by their definition, to follow the reference's trajectories.
//!
//! The trainer's optimiser moves libtorch's tensors, and the eager paths step with it; this path runs
//! in the build without libtorch too, where golden trajectories are the plan's only test of training.

use dunnart_elementwise::Real;
use dunnart_flow::{Layout, TrainableSet};

use super::network::AdamNumbers;

/// The optimiser of a case, with its moments.
pub(super) struct Adam<T> {
    numbers: AdamNumbers,
    steps: i32,
    moments: Vec<[T; 2]>,
}

impl<T: Real> Adam<T> {
    /// An optimiser that has taken no step.
    pub(super) fn new(numbers: AdamNumbers) -> Self {
        Self {
            numbers,
            steps: 0,
            moments: Vec::new(),
        }
    }

    /// One step of the trainable parameters.
    pub(super) fn step(
        &mut self,
        layout: &Layout,
        trainable: &TrainableSet,
        parameters: &mut [T],
        gradients: &[T],
    ) {
        self.moments.resize(parameters.len(), [T::ZERO; 2]);
        self.steps += 1;
        let AdamNumbers {
            rate,
            betas,
            epsilon,
            weight_decay,
            decoupled,
        } = self.numbers;
        let number = T::from_f64;
        let correction = betas.map(|beta| 1.0 - beta.powi(self.steps));
        let corrected = number(rate / correction[0]);
        let root = number(correction[1].sqrt());
        let shares = betas.map(|beta| number(1.0 - beta));
        let kept = number(betas[1]);
        for index in trainable.indices() {
            for i in layout.parameters()[index].range() {
                let (parameter, mut gradient) = (&mut parameters[i], gradients[i]);
                if decoupled {
                    *parameter *= number(1.0 - rate * weight_decay);
                } else {
                    gradient += *parameter * number(weight_decay);
                }
                let [first, second] = &mut self.moments[i];
                *first += (gradient - *first) * shares[0];
                *second = *second * kept + gradient * gradient * shares[1];
                let scale = second.square_root() / root + number(epsilon);
                *parameter -= corrected * (*first / scale);
            }
        }
    }
}

/// Scales gradients to a norm of at most `limit`; returns the norm before.
pub(super) fn clip<T: Real>(gradients: &mut [T], limit: f64) -> T {
    let norm = gradients
        .iter()
        .map(|g| g.to_f64() * g.to_f64())
        .sum::<f64>()
        .sqrt();
    let factor = limit / (norm + 1e-6);
    if factor < 1.0 {
        for gradient in gradients {
            *gradient *= T::from_f64(factor);
        }
    }
    T::from_f64(norm)
}
