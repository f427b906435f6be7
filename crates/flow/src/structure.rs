//! Where each layer's parameters stand: the network as a tree of indices into its [`crate::Layout`].
//!
//! Every form of the network (plan, eager, export) walks this tree and never looks a name up.

/// Index of a parameter in [`crate::Layout::parameters`].
pub type ParameterIndex = usize;

/// Index of a buffer in [`crate::Layout::buffers`].
pub type BufferIndex = usize;

/// `y = W x + b`, W of shape `[outputs, inputs]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// W, row-major `[outputs, inputs]`.
    pub weight: ParameterIndex,
    /// b, `[outputs]`.
    pub bias: ParameterIndex,
    /// Number of inputs.
    pub inputs: usize,
    /// Number of outputs.
    pub outputs: usize,
}

/// A linear layer whose weight is multiplied by a fixed mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedLinear {
    /// The layer; its effective weight is W * mask.
    pub linear: Linear,
    /// The mask, `[outputs, inputs]` of zeros and ones.
    pub mask: BufferIndex,
}

/// Normalisation of one activation of width H.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormLayer {
    /// No normalisation.
    None,
    /// Batch normalisation over the rows, eps 1e-3, momentum 0.1.
    Batch {
        /// Scale, `[H]`.
        weight: ParameterIndex,
        /// Shift, `[H]`.
        bias: ParameterIndex,
        /// Running mean, `[H]`.
        mean: BufferIndex,
        /// Running unbiased variance, `[H]`.
        variance: BufferIndex,
        /// Number of batches seen.
        tracked: BufferIndex,
    },
    /// Layer normalisation over the features, eps 1e-5.
    Layer {
        /// Scale, `[H]`.
        weight: ParameterIndex,
        /// Shift, `[H]`.
        bias: ParameterIndex,
    },
}

/// `x + gate(c) * (W1 dropout(act(norm1(W0 act(norm0(x))))))`; without context the gate is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidualBlock {
    /// Width H.
    pub width: usize,
    /// The two normalisations.
    pub norms: [NormLayer; 2],
    /// `sigmoid` of this layer's output gates the block.
    pub context: Option<Linear>,
    /// The two linear layers.
    pub linears: [Linear; 2],
    /// Number of this block's dropout layer in the whole network, see [`crate::Dropout`].
    pub dropout: usize,
}

/// Initial linear layer, blocks of given widths with linear layers between them where the width
/// changes, and a last linear layer; the context enters through the blocks' gates only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseResidualNetwork {
    /// Input to the first width.
    pub initial: Linear,
    /// Residual blocks.
    pub blocks: Vec<ResidualBlock>,
    /// What follows each block: a linear layer, or nothing where the widths are equal.
    pub resizes: Vec<Option<Linear>>,
}

/// Initial linear layer on identity features and context, blocks of one width, final linear layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResidualNetwork {
    /// `[identity features | context]` to width H.
    pub initial: Linear,
    /// Residual blocks of width H.
    pub blocks: Vec<ResidualBlock>,
    /// Width H to the spline's parameters.
    pub last: Linear,
}

/// Block of the masked conditioner: `x + W1 dropout(act(norm1(W0 act(norm0(x)) + context(c))))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedBlock {
    /// Added to the output of the first linear layer.
    pub context: Option<Linear>,
    /// The two normalisations.
    pub norms: [NormLayer; 2],
    /// The two masked layers.
    pub linears: [MaskedLinear; 2],
    /// Number of this block's dropout layer in the whole network, see [`crate::Dropout`].
    pub dropout: usize,
}

/// Masked autoregressive conditioner: `initial(theta) + act(context(c))`, blocks, final layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedNetwork {
    /// Parameters to width H.
    pub initial: MaskedLinear,
    /// Its activation is added to the initial layer's output.
    pub context: Option<Linear>,
    /// Masked blocks of width H.
    pub blocks: Vec<MaskedBlock>,
    /// Width H to the spline's parameters, D x (3K - 1).
    pub last: MaskedLinear,
}

/// The network that computes a step's spline parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conditioner {
    /// Coupling with batch normalisation or none.
    Residual(ResidualNetwork),
    /// Coupling with layer normalisation.
    Dense(DenseResidualNetwork),
    /// Autoregressive.
    Masked(MaskedNetwork),
}

/// Context-free spline of the identity features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnconditionalSpline {
    /// Width logits, `[D_id, K]`.
    pub widths: ParameterIndex,
    /// Height logits, `[D_id, K]`.
    pub heights: ParameterIndex,
    /// Derivative logits, `[D_id, K - 1]`.
    pub derivatives: ParameterIndex,
}

/// A fixed permutation, `out[j] = in[permutation[j]]`, then `y = L (U x) + b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearTransform {
    /// The permutation, `[D]`.
    pub permutation: BufferIndex,
    /// b, `[D]`.
    pub bias: ParameterIndex,
    /// Entries of the unit lower triangular L below the diagonal, row by row, `[D(D-1)/2]`.
    pub lower: ParameterIndex,
    /// Entries of U above the diagonal, row by row, `[D(D-1)/2]`.
    pub upper: ParameterIndex,
    /// `diag U = softplus(this) + 1e-3`, `[D]`.
    pub diagonal: ParameterIndex,
}

/// One step: permutation, LU transform, spline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Permutation and LU transform, before the spline in the density direction.
    pub linear: LinearTransform,
    /// Features that pass (coupling); empty for autoregressive steps.
    pub identity: Vec<usize>,
    /// Features the spline acts on.
    pub transformed: Vec<usize>,
    /// The conditioner.
    pub conditioner: Conditioner,
    /// Spline of the identity features, if there is one.
    pub unconditional: Option<UnconditionalSpline>,
}

/// Reduced-basis projection per detector, then a dense residual network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// One layer per detector, 3F to 2n.
    pub reduced_basis: Vec<Linear>,
    /// The residual network, 2nI to the embedding's output.
    pub network: DenseResidualNetwork,
}

/// The whole network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The embedding, if there is one.
    pub embedding: Option<Embedding>,
    /// The N steps, in the density direction.
    pub steps: Vec<Step>,
    /// Permutation and LU transform after the last step.
    pub last: LinearTransform,
}
