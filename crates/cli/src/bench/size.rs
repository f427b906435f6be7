//! The flows that are timed: the sizes at which peers were measured.

use dunnart_flow::Architecture;
use serde_json::json;

/// A flow and a batch size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Parameters D.
    parameters: usize,
    /// Context features C.
    context: usize,
    /// Spline steps N.
    steps: usize,
    /// Conditioner width H.
    hidden: usize,
    /// Residual blocks.
    blocks: usize,
    /// Rows of a batch.
    pub(crate) rows: usize,
    /// Whether the conditioner has batch normalisation.
    batch_norm: bool,
    /// Timed steps unless asked otherwise.
    pub(crate) repetitions: u32,
}

const SIZES: [Size; 3] = [
    Size {
        name: "small",
        parameters: 5,
        context: 16,
        steps: 5,
        hidden: 64,
        blocks: 2,
        rows: 256,
        batch_norm: false,
        repetitions: 60,
    },
    Size {
        name: "medium",
        parameters: 10,
        context: 64,
        steps: 10,
        hidden: 256,
        blocks: 2,
        rows: 512,
        batch_norm: true,
        repetitions: 15,
    },
    Size {
        name: "large",
        parameters: 10,
        context: 128,
        steps: 30,
        hidden: 1024,
        blocks: 5,
        rows: 256,
        batch_norm: true,
        repetitions: 4,
    },
];

impl Size {
    /// The size of that name.
    pub(crate) fn find(name: &str) -> anyhow::Result<Self> {
        SIZES
            .into_iter()
            .find(|size| size.name == name)
            .ok_or_else(|| {
                anyhow::anyhow!("size `{name}` does not exist, expected small, medium or large")
            })
    }

    /// The flow of this size: ELU, 8 bins, coupling.
    pub(crate) fn architecture(&self) -> anyhow::Result<Architecture> {
        let norm = self.batch_norm.then_some("BatchNorm");
        Ok(Architecture::from_json(&json!({"posterior_kwargs": {
            "input_dim": self.parameters,
            "context_dim": self.context,
            "num_flow_steps": self.steps,
            "base_transform_kwargs": {
                "hidden_dim": self.hidden,
                "num_transform_blocks": self.blocks,
                "activation": "elu",
                "norm": norm,
                "num_bins": 8,
                "base_transform_type": "rq-coupling"
            }
        }}))?)
    }
}
