//! Optimisers over flat buffers: Adam, AdamW, SGD and Adagrad, moving trainable parameters only.
//!
//! Every moment is one flat buffer beside the parameters, with the parameters' offsets. A step works on
//! *runs*: the longest stretches of neighbouring trainable parameters that have taken equally many
//! steps, so that a network without frozen parts takes one fused call over one tensor. Frozen
//! parameters belong to no run: nothing here touches their memory, and they have no state to save.
//!
//! Deliberately not here: when to step and with which learning rate (`run`, `scheduler`).

use std::ops::Range;

use dunnart_flow::{Layout, TrainableSet};
use dunnart_torch_shim::{
    AdagradSettings, AdagradState, AdamSettings, AdamState, LossScale, SgdSettings, SgdState,
    clip_grad_norm, fused_adagrad, fused_adam, fused_sgd,
};
use tch::{Device, Kind, Tensor};

use crate::settings::OptimizerSettings;
use crate::{Error, Result};

/// Which optimiser, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Adam or, with decoupled weight decay, AdamW.
    Adam(AdamSettings),
    /// Gradient descent with momentum.
    Sgd(SgdSettings),
    /// Adagrad; the second number is what the sums of squares start at.
    Adagrad(AdagradSettings, f64),
}

impl From<OptimizerSettings> for Method {
    /// The fused operations serve `fused: false` too; they differ from others in rounding only.
    fn from(settings: OptimizerSettings) -> Self {
        let adam = |adam: crate::settings::AdamSettings, decoupled| {
            Self::Adam(AdamSettings {
                learning_rate: adam.lr,
                beta1: adam.betas[0],
                beta2: adam.betas[1],
                epsilon: adam.eps,
                weight_decay: adam.weight_decay,
                decoupled,
                maximize: false,
            })
        };
        match settings {
            OptimizerSettings::Adam(settings) => adam(settings, false),
            OptimizerSettings::AdamW(settings) => adam(settings, true),
            OptimizerSettings::Sgd(settings) => Self::Sgd(SgdSettings {
                learning_rate: settings.lr,
                momentum: settings.momentum,
                dampening: settings.dampening,
                weight_decay: settings.weight_decay,
                nesterov: settings.nesterov,
                maximize: false,
            }),
            OptimizerSettings::Adagrad(settings) => Self::Adagrad(
                AdagradSettings {
                    learning_rate: settings.lr,
                    learning_rate_decay: settings.lr_decay,
                    epsilon: settings.eps,
                    weight_decay: settings.weight_decay,
                    maximize: false,
                },
                settings.initial_accumulator_value,
            ),
        }
    }
}

impl Method {
    /// Names of the flat buffers that this optimiser keeps, as torch names them.
    pub fn moments(&self) -> &'static [&'static str] {
        match self {
            Self::Adam(_) => &["exp_avg", "exp_avg_sq"],
            Self::Sgd(settings) if settings.momentum == 0.0 => &[],
            Self::Sgd(_) => &["momentum_buffer"],
            Self::Adagrad(..) => &["sum"],
        }
    }

    /// The learning rate the optimiser starts with.
    pub fn learning_rate(&self) -> f64 {
        match self {
            Self::Adam(settings) => settings.learning_rate,
            Self::Sgd(settings) => settings.learning_rate,
            Self::Adagrad(settings, _) => settings.learning_rate,
        }
    }

    fn with_learning_rate(self, learning_rate: f64) -> Self {
        match self {
            Self::Adam(settings) => Self::Adam(AdamSettings {
                learning_rate,
                ..settings
            }),
            Self::Sgd(settings) => Self::Sgd(SgdSettings {
                learning_rate,
                ..settings
            }),
            Self::Adagrad(settings, start) => Self::Adagrad(
                AdagradSettings {
                    learning_rate,
                    ..settings
                },
                start,
            ),
        }
    }

    /// What a fresh moment holds.
    fn start(&self) -> f64 {
        match self {
            Self::Adagrad(_, start) => *start,
            _ => 0.0,
        }
    }
}

/// A stretch of neighbouring trainable parameters with one count of steps.
struct Run {
    /// Indices of the parameters.
    parameters: Range<usize>,
    /// Their elements in the flat buffers.
    elements: Range<usize>,
    /// Steps taken; a float32 value on the device, as the fused operations want it.
    step: Tensor,
}

/// An optimiser with its moments.
pub struct Optimizer {
    method: Method,
    runs: Vec<Run>,
    /// One flat buffer for each of [`Method::moments`].
    moments: Vec<Tensor>,
}

/// What a checkpoint keeps of one parameter's optimiser state.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterState<T> {
    /// Steps taken.
    pub step: f32,
    /// Elements of each of [`Method::moments`].
    pub moments: Vec<Vec<T>>,
}

impl Optimizer {
    /// A fresh optimiser for the trainable parameters of a network of that precision and device.
    ///
    /// # Errors
    /// [`Error::NothingTrains`] when the set is empty, [`Error::Torch`] when memory runs out.
    pub fn new(
        method: Method,
        layout: &Layout,
        trainable: &TrainableSet,
        (kind, device): (Kind, Device),
    ) -> Result<Self> {
        let steps: Vec<_> = (0..trainable.len())
            .map(|i| trainable.contains(i).then_some(0.0))
            .collect();
        Self::with_steps(method, layout, &steps, (kind, device))
    }

    fn with_steps(
        method: Method,
        layout: &Layout,
        steps: &[Option<f32>],
        (kind, device): (Kind, Device),
    ) -> Result<Self> {
        let mut runs: Vec<Run> = Vec::new();
        let mut last: Option<f32> = None;
        for (index, (spec, &step)) in layout.parameters().iter().zip(steps).enumerate() {
            if let Some(step) = step {
                match runs.last_mut() {
                    Some(run) if last == Some(step) => {
                        run.parameters.end = index + 1;
                        run.elements.end = spec.range().end;
                    }
                    _ => runs.push(Run {
                        parameters: index..index + 1,
                        elements: spec.range(),
                        step: Tensor::f_full(
                            [] as [i64; 0],
                            f64::from(step),
                            (Kind::Float, device),
                        )?,
                    }),
                }
            }
            last = step;
        }
        if runs.is_empty() {
            return Err(Error::NothingTrains);
        }
        let elements = layout.parameter_elements() as i64;
        let moments = method
            .moments()
            .iter()
            .map(|_| Tensor::f_full([elements], method.start(), (kind, device)))
            .collect::<std::result::Result<_, _>>()?;
        Ok(Self {
            method,
            runs,
            moments,
        })
    }

    /// An optimiser that goes on from a saved state, an entry for every parameter of the network.
    ///
    /// # Errors
    /// [`Error::State`] when the trainable parameters and those with a state differ, or a
    /// moment has another number of elements than its parameter.
    pub fn resume<T: dunnart_torch_shim::Element>(
        method: Method,
        layout: &Layout,
        trainable: &TrainableSet,
        states: &[Option<ParameterState<T>>],
        (kind, device): (Kind, Device),
    ) -> Result<Self> {
        let refuse = |name: &str, expected: String, found: String| Error::State {
            name: format!("optimiser state of `{name}`"),
            expected,
            found,
        };
        for (index, spec) in layout.parameters().iter().enumerate() {
            let state = states.get(index).and_then(Option::as_ref);
            match (trainable.contains(index), state) {
                (true, None) => {
                    return Err(refuse(&spec.name, "a state".into(), "none".into()));
                }
                (true, Some(state)) => {
                    let counts: Vec<_> = state.moments.iter().map(Vec::len).collect();
                    let expected = vec![spec.elements(); method.moments().len()];
                    if counts != expected {
                        return Err(refuse(
                            &spec.name,
                            format!("moments of {expected:?} elements"),
                            format!("{counts:?}"),
                        ));
                    }
                }
                (false, _) => {}
            }
        }
        let steps: Vec<_> = (0..trainable.len())
            .map(|i| match &states[i] {
                Some(state) if trainable.contains(i) => Some(state.step),
                _ => None,
            })
            .collect();
        let optimizer = Self::with_steps(method, layout, &steps, (kind, device))?;
        for index in trainable.indices() {
            let (spec, Some(state)) = (&layout.parameters()[index], &states[index]) else {
                continue;
            };
            for (flat, values) in optimizer.moments.iter().zip(&state.moments) {
                let mut view = flat.f_narrow(0, spec.offset as i64, spec.elements() as i64)?;
                view.f_copy_(&dunnart_torch_shim::tensor_from_vec(
                    values.clone(),
                    &[values.len() as i64],
                )?)?;
            }
        }
        Ok(optimizer)
    }

    /// The optimiser and its numbers.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// One step with the given learning rate on every trainable parameter, in place.
    ///
    /// # Shapes
    /// `parameters`, `gradients`: the flat buffers, all elements of the network.
    ///
    /// # Errors
    /// [`Error::Torch`] when the buffers do not fit.
    pub fn step(
        &mut self,
        parameters: &Tensor,
        gradients: &Tensor,
        learning_rate: f64,
    ) -> Result<()> {
        let p = self.views(parameters)?;
        let g = self.views(gradients)?;
        let moments = self
            .moments
            .iter()
            .map(|flat| self.views(flat))
            .collect::<Result<Vec<_>>>()?;
        let steps: Vec<Tensor> = self
            .runs
            .iter()
            .map(|run| run.step.shallow_clone())
            .collect();
        let scale = LossScale::default();
        match self.method.with_learning_rate(learning_rate) {
            Method::Adam(settings) => {
                let state = AdamState {
                    exp_avg: &moments[0],
                    exp_avg_sq: &moments[1],
                    max_exp_avg_sq: None,
                    steps: &steps,
                };
                fused_adam(&p, &g, &state, &settings, scale)?;
            }
            Method::Sgd(settings) => {
                // The fused operation has no counter of its own; it is kept so that files agree.
                for index in 0..p.len() {
                    let taken = f64::try_from(&steps[index])?;
                    let state = SgdState {
                        momentum_buffers: moments.first().map(|m| &m[index..=index]),
                        first_step: taken == 0.0,
                    };
                    fused_sgd(
                        &p[index..=index],
                        &g[index..=index],
                        &state,
                        &settings,
                        scale,
                    )?;
                    let _ = steps[index].shallow_clone().f_add_scalar_(1.0)?;
                }
            }
            Method::Adagrad(settings, _) => {
                let state = AdagradState {
                    sums: &moments[0],
                    steps: &steps,
                };
                fused_adagrad(&p, &g, &state, &settings, scale)?;
            }
        }
        Ok(())
    }

    /// Scales the gradients of the trainable parameters so that their common norm is at most
    /// `max_norm`; returns the norm before, without waiting for the device.
    ///
    /// # Errors
    /// [`Error::Torch`].
    pub fn clip(&self, gradients: &Tensor, max_norm: f64) -> Result<Tensor> {
        Ok(clip_grad_norm(&self.views(gradients)?, max_norm)?)
    }

    fn views(&self, flat: &Tensor) -> Result<Vec<Tensor>> {
        let view =
            |run: &Run| flat.f_narrow(0, run.elements.start as i64, run.elements.len() as i64);
        Ok(self
            .runs
            .iter()
            .map(view)
            .collect::<std::result::Result<_, _>>()?)
    }

    /// The state of every parameter, `None` for those that do not train.
    ///
    /// # Errors
    /// [`Error::Torch`].
    pub fn states<T: dunnart_torch_shim::Element>(
        &self,
        layout: &Layout,
    ) -> Result<Vec<Option<ParameterState<T>>>> {
        let flats = self
            .moments
            .iter()
            .map(crate::storage::host_elements::<T>)
            .collect::<Result<Vec<_>>>()?;
        let mut states: Vec<_> = layout.parameters().iter().map(|_| None).collect();
        for run in &self.runs {
            let step = f64::try_from(&run.step)? as f32;
            for index in run.parameters.clone() {
                let range = layout.parameters()[index].range();
                let moments = flats
                    .iter()
                    .map(|flat| flat[range.clone()].to_vec())
                    .collect();
                states[index] = Some(ParameterState { step, moments });
            }
        }
        Ok(states)
    }
}
