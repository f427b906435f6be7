//! Adam and AdamW by their definition, to follow the reference's trajectories without libtorch.

use dunnart_elementwise::Real;
use dunnart_flow::{Layout, TrainableSet};

use crate::verify::Result;
use crate::verify::case::Case;

/// The optimiser of a case, with its moments.
pub(super) struct Adam<T> {
    rate: f64,
    betas: [f64; 2],
    epsilon: f64,
    weight_decay: f64,
    /// Whether weight decay shrinks the parameters instead of joining the gradient.
    decoupled: bool,
    steps: i32,
    moments: Vec<[T; 2]>,
}

impl<T: Real> Adam<T> {
    /// The settings at a place of the case's description.
    pub(super) fn new(case: &Case, at: &str, decoupled: bool) -> Result<Self> {
        let optional =
            |name: &str, default: f64| case.number(&format!("{at}/{name}")).unwrap_or(default);
        Ok(Self {
            rate: case.number(&format!("{at}/lr"))?,
            betas: [optional("betas/0", 0.9), optional("betas/1", 0.999)],
            epsilon: optional("eps", 1e-8),
            weight_decay: optional("weight_decay", 0.0),
            decoupled,
            steps: 0,
            moments: Vec::new(),
        })
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
        let number = T::from_f64;
        let correction = self.betas.map(|beta| 1.0 - beta.powi(self.steps));
        let rate = number(self.rate / correction[0]);
        let root = number(correction[1].sqrt());
        let shares = self.betas.map(|beta| number(1.0 - beta));
        let kept = number(self.betas[1]);
        for index in trainable.indices() {
            for i in layout.parameters()[index].range() {
                let (parameter, mut gradient) = (&mut parameters[i], gradients[i]);
                if self.decoupled {
                    *parameter *= number(1.0 - self.rate * self.weight_decay);
                } else {
                    gradient += *parameter * number(self.weight_decay);
                }
                let [first, second] = &mut self.moments[i];
                *first += (gradient - *first) * shares[0];
                *second = *second * kept + gradient * gradient * shares[1];
                let scale = second.square_root() / root + number(self.epsilon);
                *parameter -= rate * (*first / scale);
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
