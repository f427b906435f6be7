//! The classifier of the two-sample test: a small network, trained to convergence.
//!
//! Two hidden layers of ReLU units and one logistic output; Adam on shuffled batches until the
//! epoch's loss has not improved by [`TOLERANCE`] for more than [`PATIENCE`] epochs in a row. These
//! are the defaults of scikit-learn's `MLPClassifier`, which the benchmark's published numbers were
//! made with; only the random numbers differ.

use dunnart_random::Stream;
use pulp::{Simd, WithSimd};

use crate::adam::Adam;
use crate::dense::{Weights, multiply, outer, padded, sum_samples};

const BATCH: usize = 200;
const LEARNING_RATE: f64 = 1e-3;
/// Weight of the squared weights (not biases) in the loss: `0.5 PENALTY sum(w^2) / batch`.
const PENALTY: f32 = 1e-4;
const TOLERANCE: f64 = 1e-4;
const PATIENCE: usize = 10;
const EPOCHS: usize = 10_000;

/// Labelled samples, feature by feature: value `[feature][row]` at `feature * rows + row`.
pub(crate) struct Samples {
    pub(crate) features: Vec<f32>,
    pub(crate) labels: Vec<f32>,
}

impl Samples {
    /// Copies rows into a feature-major batch of the given stride; what lies beyond the rows
    /// becomes zero.
    fn gather(&self, rows: &[u32], batch: &mut [f32], stride: usize) {
        let count = self.labels.len();
        for (column, values) in self
            .features
            .chunks_exact(count)
            .zip(batch.chunks_exact_mut(stride))
        {
            for (value, &row) in values.iter_mut().zip(rows) {
                *value = column[row as usize];
            }
            values[rows.len()..].fill(0.0);
        }
    }
}

/// Parameters of the three layers in one buffer: weight `[outputs, inputs]`, bias, weight, bias,
/// weight, bias.
#[derive(Clone)]
pub(crate) struct Classifier {
    widths: [usize; 4],
    parameters: Vec<f32>,
}

/// Buffers of one training or evaluation batch.
struct Workspace {
    stride: usize,
    /// Inputs and activations of the hidden layers, then the logits.
    activations: [Vec<f32>; 4],
    /// Gradients with respect to the outputs of the three layers.
    deltas: [Vec<f32>; 3],
    labels: Vec<f32>,
    gradients: Vec<f32>,
}

impl Workspace {
    fn new(widths: [usize; 4], batch: usize, parameters: usize) -> Self {
        let stride = padded(batch);
        Self {
            stride,
            activations: widths.map(|width| vec![0.0; width * stride]),
            deltas: [widths[1], widths[2], widths[3]].map(|width| vec![0.0; width * stride]),
            labels: vec![0.0; batch],
            gradients: vec![0.0; parameters],
        }
    }
}

impl Classifier {
    /// Ten units per dimension in each hidden layer; weights and biases uniform within `sqrt(6 /
    /// (inputs + outputs))`,
    pub(crate) fn new(dimension: usize, stream: &mut Stream) -> Self {
        let hidden = 10 * dimension;
        let widths = [dimension, hidden, hidden, 1];
        let mut classifier = Self {
            widths,
            parameters: Vec::new(),
        };
        for layer in 0..3 {
            let (inputs, outputs) = (widths[layer], widths[layer + 1]);
            let bound = (6.0 / (inputs + outputs) as f64).sqrt();
            for _ in 0..(inputs + 1) * outputs {
                classifier
                    .parameters
                    .push(stream.uniform_in(-bound, bound) as f32);
            }
        }
        classifier
    }

    /// Where weights and bias of a layer lie in the buffer.
    fn layer(&self, layer: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let size = |l: usize| (self.widths[l] + 1) * self.widths[l + 1];
        let start: usize = (0..layer).map(size).sum();
        let bias = start + self.widths[layer] * self.widths[layer + 1];
        (start..bias, bias..start + size(layer))
    }

    /// Fits the network to rows of `samples`; `stream` shuffles the rows before every epoch.
    pub(crate) fn fit(&mut self, samples: &Samples, mut rows: Vec<u32>, stream: &mut Stream) {
        let batch = BATCH.min(rows.len());
        let mut workspace = Workspace::new(self.widths, batch, self.parameters.len());
        let mut adam = Adam::new(self.parameters.len());
        let (mut best, mut stalled) = (f64::INFINITY, 0);
        for _ in 0..EPOCHS {
            stream.shuffle(&mut rows);
            let mut total = 0.0;
            for rows in rows.chunks(batch) {
                total += pulp::Arch::new().dispatch(Step {
                    classifier: self,
                    adam: &mut adam,
                    workspace: &mut workspace,
                    samples,
                    rows,
                }) * rows.len() as f64;
            }
            let loss = total / rows.len() as f64;
            if loss > best - TOLERANCE {
                stalled += 1;
            } else {
                stalled = 0;
            }
            best = best.min(loss);
            // The inputs are finite, so this needs diverging weights; more epochs would not mend
            // them.
            if stalled > PATIENCE || !loss.is_finite() {
                break;
            }
        }
    }

    /// The share of `rows` whose label the network gets right.
    pub(crate) fn accuracy(&self, samples: &Samples, rows: &[u32]) -> f64 {
        let mut workspace = Workspace::new(self.widths, BATCH, 0);
        let mut right = 0;
        for rows in rows.chunks(BATCH) {
            pulp::Arch::new().dispatch(Evaluate {
                classifier: self,
                workspace: &mut workspace,
                samples,
                rows,
            });
            let labels = rows.iter().map(|&row| samples.labels[row as usize] > 0.5);
            right += workspace.activations[3]
                .iter()
                .zip(labels)
                .filter(|&(&logit, label)| (logit > 0.0) == label)
                .count();
        }
        right as f64 / rows.len() as f64
    }

    /// Activations of all layers from the inputs in the workspace.
    #[inline(always)]
    fn forward<S: Simd>(&self, simd: S, workspace: &mut Workspace) {
        for layer in 0..3 {
            let (weight, bias) = self.layer(layer);
            let (before, after) = workspace.activations.split_at_mut(layer + 1);
            let weights = Weights {
                values: &self.parameters[weight],
                output_step: self.widths[layer],
                input_step: 1,
            };
            let bias = &self.parameters[bias];
            multiply(
                simd,
                weights,
                Some(bias),
                &before[layer],
                &mut after[0],
                workspace.stride,
            );
            if layer < 2 {
                for value in after[0].iter_mut() {
                    *value = if *value > 0.0 { *value } else { 0.0 };
                }
            }
        }
    }

    /// Gradients of the mean loss and of the penalty, from the deltas of the output in the
    /// workspace.
    #[inline(always)]
    fn backward<S: Simd>(&self, simd: S, workspace: &mut Workspace, batch: usize) {
        let stride = workspace.stride;
        for layer in (0..3).rev() {
            let (weight, bias) = self.layer(layer);
            let input = &workspace.activations[layer];
            let (before, after) = workspace.deltas.split_at_mut(layer);
            let delta = &after[0];
            outer(
                simd,
                delta,
                input,
                &mut workspace.gradients[weight.clone()],
                stride,
            );
            sum_samples(simd, delta, &mut workspace.gradients[bias], stride);
            let penalty = PENALTY / batch as f32;
            let values = &self.parameters[weight.clone()];
            for (gradient, value) in workspace.gradients[weight.clone()].iter_mut().zip(values) {
                *gradient += penalty * value;
            }
            if let Some(previous) = before.last_mut() {
                let transposed = Weights {
                    values,
                    output_step: 1,
                    input_step: self.widths[layer],
                };
                multiply(simd, transposed, None, delta, previous, stride);
                for (delta, activation) in previous.iter_mut().zip(input) {
                    *delta = if *activation > 0.0 { *delta } else { 0.0 };
                }
            }
        }
    }

    /// Half the penalty's weight times the sum of the squared weights, over the batch.
    fn penalty(&self, batch: usize) -> f64 {
        let squares: f64 = (0..3)
            .map(|layer| {
                let weights = &self.parameters[self.layer(layer).0];
                f64::from(weights.iter().map(|w| w * w).sum::<f32>())
            })
            .sum();
        0.5 * f64::from(PENALTY) * squares / batch as f64
    }
}

/// One optimiser step on a batch; the result is the loss before the step.
struct Step<'a> {
    classifier: &'a mut Classifier,
    adam: &'a mut Adam,
    workspace: &'a mut Workspace,
    samples: &'a Samples,
    rows: &'a [u32],
}

impl WithSimd for Step<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self {
            classifier,
            adam,
            workspace,
            samples,
            rows,
        } = self;
        let loss = loss_and_gradients(simd, classifier, workspace, samples, rows);
        adam.step(
            LEARNING_RATE,
            &mut classifier.parameters,
            &workspace.gradients,
        );
        loss
    }
}

/// Cross-entropy with penalty of a batch, its gradients left in the workspace.
#[inline(always)]
fn loss_and_gradients<S: Simd>(
    simd: S,
    classifier: &Classifier,
    workspace: &mut Workspace,
    samples: &Samples,
    rows: &[u32],
) -> f64 {
    samples.gather(rows, &mut workspace.activations[0], workspace.stride);
    for (label, &row) in workspace.labels.iter_mut().zip(rows) {
        *label = samples.labels[row as usize];
    }
    classifier.forward(simd, workspace);
    let scale = 1.0 / rows.len() as f32;
    let mut loss = 0.0;
    let (deltas, logits) = (&mut workspace.deltas[2], &workspace.activations[3]);
    for ((delta, &logit), &label) in deltas
        .iter_mut()
        .zip(logits)
        .zip(&workspace.labels[..rows.len()])
    {
        // ln(1 + exp(-|z|)) + max(z, 0) - y z, which neither overflows nor cancels.
        let decay = (-logit.abs()).exp();
        loss += f64::from(decay.ln_1p() + logit.max(0.0) - label * logit);
        let probability = if logit >= 0.0 {
            1.0 / (1.0 + decay)
        } else {
            decay / (1.0 + decay)
        };
        *delta = (probability - label) * scale;
    }
    deltas[rows.len()..].fill(0.0);
    classifier.backward(simd, workspace, rows.len());
    loss / rows.len() as f64 + classifier.penalty(rows.len())
}

/// The logits of a batch.
struct Evaluate<'a> {
    classifier: &'a Classifier,
    workspace: &'a mut Workspace,
    samples: &'a Samples,
    rows: &'a [u32],
}

impl WithSimd for Evaluate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            classifier,
            workspace,
            samples,
            rows,
        } = self;
        samples.gather(rows, &mut workspace.activations[0], workspace.stride);
        classifier.forward(simd, workspace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dunnart_random::{Key, Purpose};

    fn example() -> (Classifier, Samples, Vec<u32>) {
        let key = Key::new(5, Purpose::Classifier);
        let classifier = Classifier::new(3, &mut key.stream(0));
        let mut features = vec![0.0; 3 * 23];
        key.stream(1).fill_normal_f32(&mut features);
        let labels = (0..23).map(|row| (row % 2) as f32).collect();
        (classifier, Samples { features, labels }, (3..22).collect())
    }

    fn loss(classifier: &Classifier, samples: &Samples, rows: &[u32]) -> (f64, Vec<f32>) {
        let mut workspace = Workspace::new(classifier.widths, 20, classifier.parameters.len());
        let loss = loss_and_gradients(
            pulp::Scalar::new(),
            classifier,
            &mut workspace,
            samples,
            rows,
        );
        (loss, workspace.gradients)
    }

    /// Central differences of every parameter; f32 leaves about three digits.
    #[test]
    fn gradients_match_differences() {
        let (classifier, samples, rows) = example();
        let (_, gradients) = loss(&classifier, &samples, &rows);
        let largest = gradients.iter().fold(0.0f32, |a, b| a.max(b.abs()));
        for (index, gradient) in gradients.iter().enumerate() {
            let mut shifted = [classifier.clone(), classifier.clone()];
            shifted[0].parameters[index] += 1e-2;
            shifted[1].parameters[index] -= 1e-2;
            let step = f64::from(shifted[0].parameters[index] - shifted[1].parameters[index]);
            let [up, down] = shifted.map(|shifted| loss(&shifted, &samples, &rows).0);
            let difference = (up - down) / step;
            // A kink of a ReLU inside the step moves a difference by up to a few per cent of the
            // largest gradient.
            let error = (difference - f64::from(*gradient)).abs();
            assert!(
                error < 0.03 * f64::from(largest),
                "parameter {index}: {gradient} {difference}"
            );
        }
    }

    #[test]
    fn the_penalty_reaches_weights_and_not_biases() {
        let (classifier, samples, rows) = example();
        let mut larger = classifier.clone();
        let (_, bias) = classifier.layer(2);
        larger.parameters[bias].fill(3.0);
        assert_eq!(classifier.penalty(20), larger.penalty(20));
        let (plain, _) = loss(&classifier, &samples, &rows);
        assert!(plain > classifier.penalty(19) && classifier.penalty(19) > 0.0);
    }

    /// With the first layer's units dead, the penalty is all that reaches the first two layers' weights.
    #[test]
    fn the_gradient_of_the_penalty() {
        let (mut classifier, samples, rows) = example();
        let bias = classifier.layer(0).1;
        classifier.parameters[bias].fill(-1e6);
        let (_, gradients) = loss(&classifier, &samples, &rows);
        for layer in [0, 1] {
            for index in classifier.layer(layer).0 {
                let expected = 1e-4 / rows.len() as f32 * classifier.parameters[index];
                assert_eq!(gradients[index], expected, "parameter {index}");
            }
        }
    }

    #[test]
    fn a_separable_set_is_learnt() {
        let (mut classifier, mut samples, _) = example();
        for row in 0..23 {
            samples.features[row] += if samples.labels[row] > 0.5 { 5.0 } else { -5.0 };
        }
        let rows: Vec<u32> = (0..23).collect();
        classifier.fit(
            &samples,
            rows.clone(),
            &mut Key::new(1, Purpose::Classifier).stream(0),
        );
        assert_eq!(classifier.accuracy(&samples, &rows), 1.0);
    }
}
