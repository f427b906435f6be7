//! Whether a golden file holds all that its description promises.

use serde_json::Value;

use super::Result;
use super::case::{Case, Kind};

impl Case {
    /// Refuses a file that lacks results or has fewer rows than its inputs.
    pub(super) fn check(&self) -> Result<()> {
        let rows = Some(self.rows()?);
        let golden = &self.golden;
        match self.kind {
            Kind::Spline => {
                let inner = golden.tensor("x")?.shape.clone();
                let shape: Vec<_> = inner.iter().map(|&n| Some(n)).collect();
                for direction in ["forward", "inverse"] {
                    for what in [
                        "y",
                        "logabsdet",
                        "grad_x",
                        "grad_out_y",
                        "grad_out_logabsdet",
                    ] {
                        golden.check_shape(&format!("{direction}.{what}"), &shape)?;
                    }
                    for what in ["widths", "heights", "derivatives"] {
                        golden.tensor(&format!("unnormalized_{what}"))?;
                        golden.tensor(&format!("{direction}.grad_unnormalized_{what}"))?;
                    }
                }
            }
            Kind::Flow | Kind::Posterior => {
                let d = Some(self.network()?.0.parameters());
                for key in ["input.theta", "eval.noise", "sample.noise", "sample.theta"] {
                    golden.check_shape(key, &[rows, d])?;
                }
                for key in ["eval.log_prob", "sample.log_prob"] {
                    golden.check_shape(key, &[rows])?;
                }
                self.check_training(rows)?;
            }
            Kind::Training => {
                let micro = self.count("/micro_batches")?;
                let size = self.count("/micro_batch_size")?;
                golden.check_shape("input.theta", &[Some(micro), Some(size), None])?;
                golden.check_shape("trajectory.loss", &[Some(micro)])?;
                let steps = micro / self.count("/gradient_updates_per_optimizer_step")?.max(1);
                golden.check_shape("trajectory.grad_norm_before_clipping", &[Some(steps)])?;
                self.check_names("trajectory.final.")?;
            }
        }
        Ok(())
    }

    fn check_training(&self, rows: Option<usize>) -> Result<()> {
        let golden = &self.golden;
        if self.kind == Kind::Flow {
            golden.check_shape("train.log_prob", &[rows])?;
            golden.check_shape("train.loss", &[Some(1)])?;
            return self.check_names("grad.");
        }
        golden.check_shape("eval.context", &[rows, None])?;
        for key in ["frozen_rb.loss", "all_trainable.loss"] {
            golden.check_shape(key, &[Some(1)])?;
        }
        let stages = self
            .value("/trajectory")
            .and_then(Value::as_array)
            .ok_or_else(|| self.undescribed("trajectory"))?;
        let steps: u64 = stages.iter().filter_map(|s| s["steps"].as_u64()).sum();
        golden.check_shape("trajectory.loss", &[Some(steps as usize)])?;
        self.check_names("all_trainable.grad.")?;
        self.check_names("trajectory.final.")
    }

    /// Every parameter of the network has a tensor under that prefix.
    fn check_names(&self, prefix: &str) -> Result<()> {
        for spec in self.network()?.1.parameters() {
            self.golden
                .tensor(&format!("{prefix}{}", self.strip(&spec.name)))?;
        }
        Ok(())
    }
}
