//! Adam on a flat buffer, in the form scikit-learn uses.

const BETA_1: f32 = 0.9;
const BETA_2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// First and second moments of a flat parameter buffer.
pub(crate) struct Adam {
    first: Vec<f32>,
    second: Vec<f32>,
    steps: i32,
}

impl Adam {
    pub(crate) fn new(parameters: usize) -> Self {
        Self {
            first: vec![0.0; parameters],
            second: vec![0.0; parameters],
            steps: 0,
        }
    }

    /// `p -= rate sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)`: the epsilon is added before the
    /// bias correction, unlike torch's Adam.
    ///
    /// # Source
    /// Kingma and Ba, "Adam", ICLR 2015, the last remark of section 2.
    #[inline(always)]
    pub(crate) fn step(&mut self, rate: f64, parameters: &mut [f32], gradients: &[f32]) {
        self.steps = self.steps.saturating_add(1);
        let correction = (1.0 - f64::from(BETA_2).powi(self.steps)).sqrt()
            / (1.0 - f64::from(BETA_1).powi(self.steps));
        let rate = (rate * correction) as f32;
        for (((parameter, &gradient), first), second) in parameters
            .iter_mut()
            .zip(gradients)
            .zip(&mut self.first)
            .zip(&mut self.second)
        {
            *first = BETA_1 * *first + (1.0 - BETA_1) * gradient;
            *second = BETA_2 * *second + (1.0 - BETA_2) * (gradient * gradient);
            *parameter -= rate * *first / (second.sqrt() + EPSILON);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two steps by hand in f64: gradients 2 then -1, rate 0.1.
    #[test]
    fn two_steps() {
        let mut adam = Adam::new(1);
        let mut parameter = [1.0f32];
        adam.step(0.1, &mut parameter, &[2.0]);
        // The first step is the rate times the sign of the gradient.
        assert!((parameter[0] - 0.9).abs() < 1e-6);
        adam.step(0.1, &mut parameter, &[-1.0]);
        let (m, v) = (0.9 * 0.2 - 0.1, 0.999 * 0.004 + 0.001f64);
        let rate = 0.1 * (1.0 - 0.999f64 * 0.999).sqrt() / (1.0 - 0.81);
        let expected = 0.9 - rate * m / v.sqrt();
        assert!(
            (f64::from(parameter[0]) - expected).abs() < 1e-6,
            "{} {expected}",
            parameter[0]
        );
    }
}
