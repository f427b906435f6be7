//! Every parameter and buffer of an [`Architecture`]: name, shape, place in the flat storage.
//!
//! The order is the reference's registration order (embedding first), which is also the order of
//! its optimiser state; parameters lie in one flat buffer in that order, running statistics in
//! another.

use std::collections::HashMap;

use crate::initialization::Initialization;
use crate::settings::{Norm, TransformKind};
use crate::structure::{
    BufferIndex, Conditioner, DenseResidualNetwork, Embedding, Linear, LinearTransform,
    MaskedBlock, MaskedLinear, MaskedNetwork, Network, NormLayer, ParameterIndex, ResidualBlock,
    ResidualNetwork, Step, UnconditionalSpline,
};
use crate::{Architecture, Error, Result, names};

/// Elements beyond which a network is refused: 2^36, 256 GiB of float32.
const MAX_ELEMENTS: u64 = 1 << 36;

/// Diagonal logit at which `softplus(u) + 1e-3` is 1: ln(e^(1 - 1e-3) - 1).
const UNIT_DIAGONAL: f64 = 0.539_742_417_236_952_2;

/// The part of the network a parameter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Reduced-basis projection.
    ReducedBasis,
    /// The embedding's residual network.
    Embedding,
    /// The flow.
    Flow,
}

/// A parameter tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// The reference's key.
    pub name: String,
    /// Shape; row-major.
    pub shape: Vec<usize>,
    /// First element in the flat buffer.
    pub offset: usize,
    /// How it starts.
    pub initialization: Initialization,
    /// Where it belongs.
    pub part: Part,
}

impl ParameterSpec {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Its elements' places in the flat buffer.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.elements()
    }
}

/// What a buffer holds.
#[derive(Clone, Debug, PartialEq)]
pub enum BufferKind {
    /// A drawn permutation of the D parameters, int64; the number counts the permutations.
    Permutation(usize),
    /// int64 values that follow from the architecture (feature lists, degrees).
    Fixed(Vec<i64>),
    /// Zeros and ones that follow from the architecture, in the network's precision.
    Mask(Vec<u8>),
    /// Running mean of a batch norm: first element in the flat statistics.
    RunningMean(usize),
    /// Running variance of a batch norm: first element in the flat statistics.
    RunningVariance(usize),
    /// Number of batches a batch norm has seen, int64; the number counts the batch norms.
    BatchesTracked(usize),
}

/// A tensor of the state dict that is not trained by gradients.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferSpec {
    /// The reference's key.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// What it holds.
    pub kind: BufferKind,
}

/// One entry of the state dict, in the reference's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Index into [`Layout::parameters`].
    Parameter(ParameterIndex),
    /// Index into [`Layout::buffers`].
    Buffer(BufferIndex),
}

/// Elements of the parameters by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParameterCount {
    /// Reduced-basis projection.
    pub reduced_basis: usize,
    /// The embedding's residual network.
    pub embedding: usize,
    /// The flow.
    pub flow: usize,
}

impl ParameterCount {
    /// All parts together.
    pub fn total(&self) -> usize {
        self.reduced_basis + self.embedding + self.flow
    }
}

/// Every tensor of a network, its place, and the network as a tree over them.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    parameters: Vec<ParameterSpec>,
    buffers: Vec<BufferSpec>,
    entries: Vec<Entry>,
    by_name: HashMap<String, Entry>,
    network: Network,
    statistics: usize,
    counters: usize,
    permutations: usize,
}

impl Layout {
    /// Lays out an architecture.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the network could not be stored.
    pub fn new(architecture: &Architecture) -> Result<Self> {
        Builder::new(architecture).build()
    }

    /// Parameters in registration order.
    pub fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    /// Buffers in registration order.
    pub fn buffers(&self) -> &[BufferSpec] {
        &self.buffers
    }

    /// The state dict in the reference's order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Entry of that name.
    pub fn find(&self, name: &str) -> Option<Entry> {
        self.by_name.get(name).copied()
    }

    /// The network as a tree of indices.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Elements of the flat parameter buffer.
    pub fn parameter_elements(&self) -> usize {
        self.parameters.last().map_or(0, |p| p.range().end)
    }

    /// Elements of the flat statistics buffer (running means and variances).
    pub fn statistic_elements(&self) -> usize {
        self.statistics
    }

    /// Number of batch norms.
    pub fn batch_norms(&self) -> usize {
        self.counters
    }

    /// Number of permutations.
    pub fn permutations(&self) -> usize {
        self.permutations
    }

    /// Elements of the parameters by part.
    pub fn count(&self) -> ParameterCount {
        let mut count = ParameterCount::default();
        for parameter in &self.parameters {
            *match parameter.part {
                Part::ReducedBasis => &mut count.reduced_basis,
                Part::Embedding => &mut count.embedding,
                Part::Flow => &mut count.flow,
            } += parameter.elements();
        }
        count
    }
}

struct Builder<'a> {
    architecture: &'a Architecture,
    parameters: Vec<ParameterSpec>,
    buffers: Vec<BufferSpec>,
    entries: Vec<Entry>,
    offset: u64,
    statistics: usize,
    counters: usize,
    permutations: usize,
    dropouts: usize,
    part: Part,
}

/// Options of a linear layer's initialisation.
#[derive(Clone, Copy, PartialEq)]
enum Start {
    Default,
    NearZero,
    IdentitySpline,
}

impl<'a> Builder<'a> {
    fn new(architecture: &'a Architecture) -> Self {
        Self {
            architecture,
            parameters: Vec::new(),
            buffers: Vec::new(),
            entries: Vec::new(),
            offset: 0,
            statistics: 0,
            counters: 0,
            permutations: 0,
            dropouts: 0,
            part: Part::ReducedBasis,
        }
    }

    fn build(mut self) -> Result<Layout> {
        self.check_size()?;
        let embedding = self.embedding();
        self.part = Part::Flow;
        let count = self.architecture.steps();
        let steps = (0..count).map(|i| self.step(i)).collect();
        let last = self.linear_transform(count);
        let by_name = self
            .entries
            .iter()
            .map(|&entry| {
                let name = match entry {
                    Entry::Parameter(i) => self.parameters[i].name.clone(),
                    Entry::Buffer(i) => self.buffers[i].name.clone(),
                };
                (name, entry)
            })
            .collect();
        Ok(Layout {
            parameters: self.parameters,
            buffers: self.buffers,
            entries: self.entries,
            by_name,
            network: Network {
                embedding,
                steps,
                last,
            },
            statistics: self.statistics,
            counters: self.counters,
            permutations: self.permutations,
        })
    }

    /// Refuses absurd sizes before anything is allocated for them.
    fn check_size(&self) -> Result<()> {
        let (d, c) = (
            self.architecture.parameters() as f64,
            self.architecture.context() as f64,
        );
        let coupling = self.architecture.coupling();
        let (h, k) = (
            coupling.hidden as f64,
            self.architecture.spline().num_bins as f64,
        );
        let per_step = h * (d + c)
            + coupling.blocks as f64 * (2.0 * h + c + 8.0) * h
            + d * (3.0 * k) * h
            + d * d;
        let mut total = per_step * self.architecture.steps() as f64;
        if let Some(e) = self.architecture.embedding() {
            let n = 2.0 * e.basis_size as f64;
            let i = e.detectors as f64;
            total += i * n * (e.channels as f64 * e.bins as f64 + 1.0);
            let mut before = n * i;
            for &width in &e.hidden {
                let w = width as f64;
                total += before * w + 2.0 * w * w;
                before = w;
            }
            total += before * e.output as f64;
        }
        if total > MAX_ELEMENTS as f64 {
            return Err(Error::TooLarge {
                limit: MAX_ELEMENTS,
            });
        }
        Ok(())
    }

    fn parameter(
        &mut self,
        name: String,
        shape: Vec<usize>,
        initialization: Initialization,
    ) -> ParameterIndex {
        let spec = ParameterSpec {
            name,
            shape,
            offset: self.offset as usize,
            initialization,
            part: self.part,
        };
        self.offset += spec.elements() as u64;
        let index = self.parameters.len();
        self.entries.push(Entry::Parameter(index));
        self.parameters.push(spec);
        index
    }

    fn buffer(&mut self, name: String, shape: Vec<usize>, kind: BufferKind) -> BufferIndex {
        let index = self.buffers.len();
        self.entries.push(Entry::Buffer(index));
        self.buffers.push(BufferSpec { name, shape, kind });
        index
    }

    fn fixed(&mut self, name: String, values: Vec<i64>) -> BufferIndex {
        self.buffer(name, vec![values.len()], BufferKind::Fixed(values))
    }

    fn linear(&mut self, name: &str, inputs: usize, outputs: usize, start: Start) -> Linear {
        let near_zero = Initialization::Uniform {
            low: -1e-3,
            high: 1e-3,
        };
        let (weight, bias) = match start {
            Start::Default => (
                Initialization::linear(inputs),
                Initialization::linear(inputs),
            ),
            Start::NearZero => (near_zero.clone(), near_zero),
            Start::IdentitySpline => {
                let spline = self.architecture.spline();
                let bias = Initialization::IdentitySpline {
                    num_bins: spline.num_bins,
                    derivative: spline.boundary_derivative_logit(),
                };
                (Initialization::Constant(0.0), bias)
            }
        };
        let weight = self.parameter(format!("{name}.weight"), vec![outputs, inputs], weight);
        let bias = self.parameter(format!("{name}.bias"), vec![outputs], bias);
        Linear {
            weight,
            bias,
            inputs,
            outputs,
        }
    }

    fn norm(&mut self, block: &str, which: usize, norm: Option<Norm>, width: usize) -> NormLayer {
        let one = Initialization::Constant(1.0);
        let zero = Initialization::Constant(0.0);
        match norm {
            None => NormLayer::None,
            Some(Norm::LayerNorm) => {
                let name = format!("{block}.layer_norm_layers.{which}");
                let weight = self.parameter(format!("{name}.weight"), vec![width], one);
                let bias = self.parameter(format!("{name}.bias"), vec![width], zero);
                NormLayer::Layer { weight, bias }
            }
            Some(Norm::BatchNorm) => {
                let name = format!("{block}.batch_norm_layers.{which}");
                let weight = self.parameter(format!("{name}.weight"), vec![width], one);
                let bias = self.parameter(format!("{name}.bias"), vec![width], zero);
                let mean = BufferKind::RunningMean(self.statistics);
                let mean = self.buffer(format!("{name}.running_mean"), vec![width], mean);
                let variance = BufferKind::RunningVariance(self.statistics + width);
                let variance = self.buffer(format!("{name}.running_var"), vec![width], variance);
                let tracked = BufferKind::BatchesTracked(self.counters);
                let tracked = self.buffer(format!("{name}.num_batches_tracked"), vec![], tracked);
                self.statistics += 2 * width;
                self.counters += 1;
                NormLayer::Batch {
                    weight,
                    bias,
                    mean,
                    variance,
                    tracked,
                }
            }
        }
    }

    /// Number of the next dropout layer.
    fn dropout(&mut self) -> usize {
        self.dropouts += 1;
        self.dropouts - 1
    }

    fn block(
        &mut self,
        name: &str,
        width: usize,
        context: Option<usize>,
        norm: Option<Norm>,
    ) -> ResidualBlock {
        let norms = [
            self.norm(name, 0, norm, width),
            self.norm(name, 1, norm, width),
        ];
        let context = context
            .map(|c| self.linear(&format!("{name}.context_layer"), c, width, Start::Default));
        let first = self.linear(
            &format!("{name}.linear_layers.0"),
            width,
            width,
            Start::Default,
        );
        let second = self.linear(
            &format!("{name}.linear_layers.1"),
            width,
            width,
            Start::NearZero,
        );
        ResidualBlock {
            width,
            norms,
            context,
            linears: [first, second],
            dropout: self.dropout(),
        }
    }

    fn dense_residual(
        &mut self,
        name: &str,
        (inputs, outputs): (usize, usize),
        widths: &[usize],
        context: Option<usize>,
        norm: Option<Norm>,
        last: Start,
    ) -> DenseResidualNetwork {
        let initial = self.linear(
            &format!("{name}.initial_layer"),
            inputs,
            widths[0],
            Start::Default,
        );
        let blocks = widths
            .iter()
            .enumerate()
            .map(|(k, &width)| self.block(&format!("{name}.blocks.{k}"), width, context, norm))
            .collect();
        let resizes = (0..widths.len())
            .map(|k| {
                let name = format!("{name}.resize_layers.{k}");
                match widths.get(k + 1) {
                    None => Some(self.linear(&name, widths[k], outputs, last)),
                    Some(&next) if next != widths[k] => {
                        Some(self.linear(&name, widths[k], next, Start::Default))
                    }
                    Some(_) => None,
                }
            })
            .collect();
        DenseResidualNetwork {
            initial,
            blocks,
            resizes,
        }
    }

    fn embedding(&mut self) -> Option<Embedding> {
        let e = self.architecture.embedding()?;
        let with_context = e.context_parameters > 0;
        let prefix = names::reduced_basis(with_context);
        let reduced_basis = (0..e.detectors)
            .map(|d| {
                let name = format!("{prefix}.{}.{d}", names::REDUCED_BASIS_LAYERS);
                self.linear(&name, e.channels * e.bins, 2 * e.basis_size, Start::Default)
            })
            .collect();
        self.part = Part::Embedding;
        let network = self.dense_residual(
            names::embedding_network(with_context),
            (2 * e.basis_size * e.detectors, e.output),
            &e.hidden,
            None,
            e.norm,
            Start::Default,
        );
        Some(Embedding {
            reduced_basis,
            network,
        })
    }

    fn linear_transform(&mut self, step: usize) -> LinearTransform {
        let d = self.architecture.parameters();
        let prefix = names::linear(step, self.architecture.steps());
        let kind = BufferKind::Permutation(self.permutations);
        self.permutations += 1;
        let permutation = self.buffer(names::permutation(&prefix), vec![d], kind);
        let lu = names::lu(&prefix);
        let zero = Initialization::Constant(0.0);
        let off_diagonal = d * (d - 1) / 2;
        let bias = self.parameter(format!("{lu}.bias"), vec![d], zero.clone());
        let lower = self.parameter(
            format!("{lu}.lower_entries"),
            vec![off_diagonal],
            zero.clone(),
        );
        let upper = self.parameter(format!("{lu}.upper_entries"), vec![off_diagonal], zero);
        let unit = Initialization::Constant(UNIT_DIAGONAL);
        let diagonal = self.parameter(format!("{lu}.unconstrained_upper_diag"), vec![d], unit);
        LinearTransform {
            permutation,
            bias,
            lower,
            upper,
            diagonal,
        }
    }

    fn step(&mut self, step: usize) -> Step {
        let linear = self.linear_transform(step);
        let coupling = self.architecture.coupling();
        let d = self.architecture.parameters();
        let prefix = names::spline_step(step);
        if coupling.kind == TransformKind::Autoregressive {
            let name = format!("{prefix}.{}", names::MASKED_CONDITIONER);
            let conditioner = Conditioner::Masked(self.masked(&name));
            let transformed = (0..d).collect();
            return Step {
                linear,
                identity: vec![],
                transformed,
                conditioner,
                unconditional: None,
            };
        }
        // A single parameter has nothing to be conditioned on but the context: always transformed.
        let transforms = |j: &usize| d == 1 || j % 2 == step % 2;
        let transformed: Vec<usize> = (0..d).filter(transforms).collect();
        let identity: Vec<usize> = (0..d).filter(|j| !transforms(j)).collect();
        let as_i64 = |list: &[usize]| list.iter().map(|&j| j as i64).collect::<Vec<_>>();
        self.fixed(format!("{prefix}.identity_features"), as_i64(&identity));
        self.fixed(format!("{prefix}.transform_features"), as_i64(&transformed));
        let conditioner = self.coupling_conditioner(&prefix, identity.len(), transformed.len());
        let unconditional = coupling
            .unconditional_transform
            .then(|| self.unconditional(&prefix, identity.len()));
        Step {
            linear,
            identity,
            transformed,
            conditioner,
            unconditional,
        }
    }

    fn last_start(&self) -> Start {
        if self.architecture.coupling().identity_init {
            Start::IdentitySpline
        } else {
            Start::Default
        }
    }

    fn coupling_conditioner(
        &mut self,
        prefix: &str,
        identity: usize,
        transformed: usize,
    ) -> Conditioner {
        let name = format!("{prefix}.{}", names::COUPLING_CONDITIONER);
        let c = self.architecture.coupling();
        let context = self.architecture.settings().posterior_kwargs.context_dim;
        let outputs = transformed * (3 * self.architecture.spline().num_bins - 1);
        let last = self.last_start();
        if c.norm == Some(Norm::LayerNorm) {
            let widths = vec![c.hidden; c.blocks];
            let shape = (identity, outputs);
            return Conditioner::Dense(
                self.dense_residual(&name, shape, &widths, context, c.norm, last),
            );
        }
        let inputs = identity + context.unwrap_or(0);
        let initial = self.linear(
            &format!("{name}.initial_layer"),
            inputs,
            c.hidden,
            Start::Default,
        );
        let blocks = (0..c.blocks)
            .map(|b| self.block(&format!("{name}.blocks.{b}"), c.hidden, context, c.norm))
            .collect();
        let last = self.linear(&format!("{name}.final_layer"), c.hidden, outputs, last);
        Conditioner::Residual(ResidualNetwork {
            initial,
            blocks,
            last,
        })
    }

    fn unconditional(&mut self, prefix: &str, features: usize) -> UnconditionalSpline {
        let name = format!("{prefix}.{}", names::UNCONDITIONAL);
        let spline = self.architecture.spline();
        let k = spline.num_bins;
        let (logits, derivatives) = if self.architecture.coupling().identity_init {
            let unit = spline.boundary_derivative_logit();
            (
                Initialization::Constant(0.0),
                Initialization::Constant(unit),
            )
        } else {
            let uniform = Initialization::Uniform {
                low: 0.0,
                high: 1.0,
            };
            (uniform.clone(), uniform)
        };
        let mut part = |what: &str, columns: usize, start: &Initialization| {
            self.parameter(
                format!("{name}.unnormalized_{what}"),
                vec![features, columns],
                start.clone(),
            )
        };
        UnconditionalSpline {
            widths: part("widths", k, &logits),
            heights: part("heights", k, &logits),
            derivatives: part("derivatives", k - 1, &derivatives),
        }
    }

    fn masked_linear(
        &mut self,
        name: &str,
        (input_degrees, output_degrees): (&[i64], &[i64]),
        strict: bool,
        start: Start,
    ) -> MaskedLinear {
        let linear = self.linear(name, input_degrees.len(), output_degrees.len(), start);
        let mask = output_degrees
            .iter()
            .flat_map(|&out| {
                input_degrees
                    .iter()
                    .map(move |&inp| u8::from(if strict { out > inp } else { out >= inp }))
            })
            .collect();
        let shape = vec![linear.outputs, linear.inputs];
        let mask = self.buffer(format!("{name}.mask"), shape, BufferKind::Mask(mask));
        self.fixed(format!("{name}.degrees"), output_degrees.to_vec());
        MaskedLinear { linear, mask }
    }

    fn masked(&mut self, name: &str) -> MaskedNetwork {
        let c = self.architecture.coupling();
        let context = self.architecture.settings().posterior_kwargs.context_dim;
        let d = self.architecture.parameters();
        let per_feature = 3 * self.architecture.spline().num_bins - 1;
        let inputs: Vec<i64> = (1..=d as i64).collect();
        let (period, shift) = (1.max(d - 1), 1.min(d - 1));
        let hidden: Vec<i64> = (0..c.hidden).map(|j| (j % period + shift) as i64).collect();
        let outputs: Vec<i64> = (1..=d as i64)
            .flat_map(|degree| std::iter::repeat_n(degree, per_feature))
            .collect();
        let initial = self.masked_linear(
            &format!("{name}.initial_layer"),
            (&inputs, &hidden),
            false,
            Start::Default,
        );
        let context_layer = |builder: &mut Self, name: &str| {
            context.map(|n| {
                builder.linear(
                    &format!("{name}.context_layer"),
                    n,
                    c.hidden,
                    Start::Default,
                )
            })
        };
        let outer_context = context_layer(self, name);
        let blocks = (0..c.blocks)
            .map(|b| {
                let name = format!("{name}.blocks.{b}");
                let context = context_layer(self, &name);
                let norms = [
                    self.norm(&name, 0, c.norm, c.hidden),
                    self.norm(&name, 1, c.norm, c.hidden),
                ];
                let degrees = (hidden.as_slice(), hidden.as_slice());
                let first = format!("{name}.linear_layers.0");
                let second = format!("{name}.linear_layers.1");
                let linears = [
                    self.masked_linear(&first, degrees, false, Start::Default),
                    self.masked_linear(&second, degrees, false, Start::NearZero),
                ];
                MaskedBlock {
                    context,
                    norms,
                    linears,
                    dropout: self.dropout(),
                }
            })
            .collect();
        let last = self.last_start();
        let last = self.masked_linear(
            &format!("{name}.final_layer"),
            (&hidden, &outputs),
            true,
            last,
        );
        MaskedNetwork {
            initial,
            context: outer_context,
            blocks,
            last,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layout(settings: serde_json::Value) -> Layout {
        Layout::new(&Architecture::from_json(&settings).unwrap()).unwrap()
    }

    fn worked_example(norm: &str) -> serde_json::Value {
        json!({
            "posterior_kwargs": {
                "input_dim": 3, "context_dim": 6, "num_flow_steps": 2,
                "base_transform_kwargs": {
                    "hidden_dim": 8, "num_transform_blocks": 2, "num_bins": 4,
                    "norm": norm, "base_transform_type": "rq-coupling"
                }
            },
            "embedding_kwargs": {
                "input_dims": [2, 3, 10], "output_dim": 4, "hidden_dims": [12, 12, 6],
                "svd": {"size": 5}, "added_context": true
            }
        })
    }

    fn shape(layout: &Layout, name: &str) -> Option<Vec<usize>> {
        layout.find(name).map(|entry| match entry {
            Entry::Parameter(i) => layout.parameters()[i].shape.clone(),
            Entry::Buffer(i) => layout.buffers()[i].shape.clone(),
        })
    }

    #[test]
    fn worked_example_has_the_reference_shapes() {
        let l = layout(worked_example("BatchNorm"));
        let step = |i: usize| format!("flow._transform._transforms.{i}._transforms.1");
        for (name, expected) in [
            (
                "embedding_net.enets.0.0.layers_rb.0.weight".to_owned(),
                vec![10, 30],
            ),
            (
                "embedding_net.enets.0.1.initial_layer.weight".into(),
                vec![12, 20],
            ),
            (
                "embedding_net.enets.0.1.resize_layers.1.weight".into(),
                vec![6, 12],
            ),
            (
                "embedding_net.enets.0.1.resize_layers.2.weight".into(),
                vec![4, 6],
            ),
            (format!("{}.identity_features", step(0)), vec![1]),
            (format!("{}.transform_features", step(0)), vec![2]),
            (
                format!("{}.transform_net.initial_layer.weight", step(0)),
                vec![8, 7],
            ),
            (
                format!("{}.transform_net.final_layer.weight", step(0)),
                vec![22, 8],
            ),
            (format!("{}.identity_features", step(1)), vec![2]),
            (
                format!("{}.transform_net.initial_layer.weight", step(1)),
                vec![8, 8],
            ),
            (
                format!("{}.transform_net.final_layer.weight", step(1)),
                vec![11, 8],
            ),
            (
                "flow._transform._transforms.2._transforms.0._permutation".into(),
                vec![3],
            ),
        ] {
            assert_eq!(shape(&l, &name), Some(expected), "{name}");
        }
        assert_eq!(
            shape(&l, "embedding_net.enets.0.1.resize_layers.0.weight"),
            None
        );
        let l = layout(worked_example("LayerNorm"));
        let initial = format!("{}.transform_net.initial_layer.weight", step(0));
        let last = format!("{}.transform_net.resize_layers.1.weight", step(0));
        assert_eq!(shape(&l, &initial), Some(vec![8, 1]));
        assert_eq!(shape(&l, &last), Some(vec![22, 8]));
    }

    fn dingo(
        d: usize,
        c: usize,
        steps: usize,
        hidden: usize,
        embedding: serde_json::Value,
    ) -> Layout {
        layout(json!({
            "posterior_kwargs": {
                "input_dim": d, "context_dim": c, "num_flow_steps": steps,
                "base_transform_kwargs": {
                    "hidden_dim": hidden, "num_transform_blocks": 5, "activation": "elu",
                    "norm": "BatchNorm", "base_transform_type": "rq-coupling"
                }
            },
            "embedding_kwargs": embedding
        }))
    }

    /// Six blocks of each width.
    fn six_of_each(widths: &[usize]) -> Vec<usize> {
        widths.iter().flat_map(|&w| [w; 6]).collect()
    }

    #[test]
    fn npe_model_has_the_reference_parameter_count() {
        let hidden = six_of_each(&[1024, 512, 256, 128]);
        let l = dingo(
            10,
            128,
            30,
            1024,
            json!({
                "input_dims": [2, 3, 8033], "output_dim": 128, "hidden_dims": hidden, "svd": {"size": 200}
            }),
        );
        let count = l.count();
        assert_eq!(count.total(), 380_551_500);
        assert_eq!(count.reduced_basis, 19_280_000);
        assert_eq!(count.reduced_basis + count.embedding, 37_586_560);
        assert_eq!(count.flow, 342_964_940);
        assert_eq!(l.entries().len(), 3085);
        assert_eq!(l.parameter_elements(), count.total());
    }

    #[test]
    fn published_network_has_the_reference_parameter_count() {
        let hidden = six_of_each(&[1024, 512, 256, 128]);
        let l = dingo(
            15,
            129,
            30,
            512,
            json!({
                "input_dims": [2, 3, 8033], "output_dim": 128, "hidden_dims": hidden,
                "svd": {"size": 200}, "added_context": true
            }),
        );
        assert_eq!(l.count().total(), 131_448_775);
        assert_eq!(l.count().reduced_basis + l.count().embedding, 37_586_560);
    }

    #[test]
    fn parameters_lie_back_to_back_in_registration_order() {
        let l = layout(worked_example("BatchNorm"));
        let mut end = 0;
        for parameter in l.parameters() {
            assert_eq!(parameter.offset, end, "{}", parameter.name);
            end += parameter.elements();
        }
        assert_eq!(end, l.parameter_elements());
        assert!(l.parameters()[0].name.contains("layers_rb.0.weight"));
        let unique: std::collections::HashSet<_> = l.parameters().iter().map(|p| &p.name).collect();
        assert_eq!(unique.len(), l.parameters().len());
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let mut settings = worked_example("BatchNorm");
        settings["posterior_kwargs"]["base_transform_kwargs"]["hidden_dim"] = json!(usize::MAX / 4);
        let architecture = Architecture::from_json(&settings).unwrap();
        assert!(matches!(
            Layout::new(&architecture),
            Err(Error::TooLarge { .. })
        ));
    }
}
