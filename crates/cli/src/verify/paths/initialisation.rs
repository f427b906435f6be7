//! How a posterior's reduced-basis layers start: from the basis V.

use dunnart_flow::reduced_basis_weight;

use crate::verify::case::{Case, Kind, Precision};
use crate::verify::paths::{Computed, Path, failed};
use crate::verify::{Error, Result};

/// Weights made of V by the flow crate; everything else of the initialisation is drawn.
pub(super) struct Initialisation;

impl Path for Initialisation {
    fn name(&self) -> &'static str {
        "initialisation"
    }

    fn available(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    fn takes(&self, case: &Case) -> bool {
        case.kind == Kind::Posterior
    }

    fn covers(&self, _: &Case, key: &str) -> bool {
        key.starts_with("init.state.")
    }

    fn compute(&self, case: &Case, _: Precision) -> Result<Computed> {
        let (architecture, layout) = case.network()?;
        let mut computed = Computed::default();
        let (Some(settings), Some(embedding)) =
            (architecture.embedding(), &layout.network().embedding)
        else {
            return Err(failed(case, "a posterior without embedding"));
        };
        for (detector, layer) in embedding.reduced_basis.iter().enumerate() {
            let part = |what: &str| -> Result<(&[f64], usize)> {
                let key = format!("init.V_rb.{detector}.{what}");
                let shape = &case.golden.tensor(&key)?.shape;
                let [_, columns] = shape.as_slice() else {
                    return Err(Error::Shape {
                        file: case.golden.file().into(),
                        key,
                        expected: "[F, columns]".into(),
                        found: shape.clone(),
                    });
                };
                Ok((case.golden.reals(&key)?, *columns))
            };
            let ((real, columns), (imag, _)) = (part("real")?, part("imag")?);
            let n = settings.basis_size;
            let weight = reduced_basis_weight(real, imag, columns, n, settings.channels)
                .map_err(|error| failed(case, error))?;
            // The reference builds its layers in float32, whatever the network's precision is later.
            let weight: Vec<f64> = weight.iter().map(|&x| f64::from(x as f32)).collect();
            let key = |index: usize| {
                format!(
                    "init.state.{}",
                    case.strip(&layout.parameters()[index].name)
                )
            };
            computed.reals(key(layer.weight), &weight);
            computed.reals(key(layer.bias), &vec![0.0; 2 * n]);
        }
        Ok(computed)
    }
}
