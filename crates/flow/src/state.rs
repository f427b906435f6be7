//! The numbers of a network: flat parameters, running statistics, counters, permutations.

use dunnart_elementwise::Real;
use dunnart_random::{Key, Purpose, permutation};

use crate::layout::{BufferKind, BufferSpec, ParameterSpec};
use crate::{Architecture, Error, Layout, Result};

/// The values of every tensor of a network, in flat buffers laid out by its [`Layout`].
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkState<T> {
    /// All parameters in registration order.
    pub parameters: Vec<T>,
    /// Running means and variances of the batch norms.
    pub statistics: Vec<T>,
    /// Batches seen by each batch norm.
    pub counters: Vec<i64>,
    /// The fixed permutations, in the density direction.
    pub permutations: Vec<Vec<usize>>,
}

/// The value of a buffer, as a state dict holds it.
#[derive(Clone, Debug, PartialEq)]
pub enum BufferValue<T> {
    /// int64 values.
    Integers(Vec<i64>),
    /// Values in the network's precision.
    Reals(Vec<T>),
}

impl<T: Real> NetworkState<T> {
    /// A freshly initialised network; every value follows from the seed.
    pub fn initialize(architecture: &Architecture, layout: &Layout, seed: u64) -> Self {
        let mut parameters = Vec::with_capacity(layout.parameter_elements());
        for (index, spec) in layout.parameters().iter().enumerate() {
            let values = spec.initialization.fill(seed, index, spec.elements());
            parameters.extend(values.into_iter().map(T::from_f64));
        }
        let mut state = Self {
            parameters,
            ..Self::blank(architecture, layout)
        };
        let d = architecture.parameters();
        // Parameters are drawn at stage 0 of the key, permutations at stage 1.
        let key = Key::new(seed, Purpose::Initialisation).stage(1);
        for (index, slot) in state.permutations.iter_mut().enumerate() {
            *slot = permutation(&key.epoch(index as u32), d);
        }
        if architecture.coupling().identity_init {
            state.close_permutations(d);
        }
        state
    }

    /// Zero parameters, unit variances, identity permutations: to be filled from a file.
    pub fn blank(architecture: &Architecture, layout: &Layout) -> Self {
        let mut statistics = vec![T::from_f64(0.0); layout.statistic_elements()];
        for buffer in layout.buffers() {
            if let BufferKind::RunningVariance(offset) = buffer.kind {
                statistics[offset..offset + buffer.shape[0]].fill(T::from_f64(1.0));
            }
        }
        Self {
            parameters: vec![T::from_f64(0.0); layout.parameter_elements()],
            statistics,
            counters: vec![0; layout.batch_norms()],
            permutations: vec![(0..architecture.parameters()).collect(); layout.permutations()],
        }
    }

    /// Makes the last permutation undo all others, so that an identity flow returns its input.
    fn close_permutations(&mut self, d: usize) {
        let Some((last, others)) = self.permutations.split_last_mut() else {
            return;
        };
        let mut composed: Vec<usize> = (0..d).collect();
        for p in others {
            composed = p.iter().map(|&j| composed[j]).collect();
        }
        for (position, &origin) in composed.iter().enumerate() {
            last[origin] = position;
        }
    }

    /// Elements of one parameter.
    pub fn parameter(&self, spec: &ParameterSpec) -> &[T] {
        &self.parameters[spec.range()]
    }

    /// Replaces the elements of one parameter.
    ///
    /// # Errors
    /// [`Error::Length`] when the number of elements differs.
    pub fn set_parameter(&mut self, spec: &ParameterSpec, values: &[T]) -> Result<()> {
        if values.len() != spec.elements() {
            return Err(Error::Length {
                name: spec.name.clone(),
                expected: spec.elements(),
                found: values.len(),
            });
        }
        self.parameters[spec.range()].copy_from_slice(values);
        Ok(())
    }

    /// Value of one buffer, as a state dict holds it.
    pub fn buffer(&self, spec: &BufferSpec) -> BufferValue<T> {
        let range = |offset: usize| offset..offset + spec.shape[0];
        match &spec.kind {
            BufferKind::Permutation(index) => {
                let as_i64 = self.permutations[*index].iter().map(|&j| j as i64);
                BufferValue::Integers(as_i64.collect())
            }
            BufferKind::Fixed(values) => BufferValue::Integers(values.clone()),
            BufferKind::Mask(mask) => {
                BufferValue::Reals(mask.iter().map(|&m| T::from_f64(f64::from(m))).collect())
            }
            BufferKind::RunningMean(offset) | BufferKind::RunningVariance(offset) => {
                BufferValue::Reals(self.statistics[range(*offset)].to_vec())
            }
            BufferKind::BatchesTracked(index) => BufferValue::Integers(vec![self.counters[*index]]),
        }
    }

    /// Takes over one buffer's value; what follows from the architecture is compared instead.
    ///
    /// # Errors
    /// [`Error::Buffer`] when the value is no permutation or contradicts the architecture,
    /// [`Error::Length`] when the number of elements differs.
    pub fn set_buffer(&mut self, spec: &BufferSpec, value: &BufferValue<T>) -> Result<()> {
        let refuse = |reason: String| {
            Err(Error::Buffer {
                name: spec.name.clone(),
                reason,
            })
        };
        let expected: usize = spec.shape.iter().product();
        let found = match value {
            BufferValue::Integers(v) => v.len(),
            BufferValue::Reals(v) => v.len(),
        };
        if found != expected {
            return Err(Error::Length {
                name: spec.name.clone(),
                expected,
                found,
            });
        }
        match (&spec.kind, value) {
            (BufferKind::Permutation(index), BufferValue::Integers(values)) => {
                let mut seen = vec![false; expected];
                for &v in values {
                    let slot = usize::try_from(v).ok().and_then(|v| seen.get_mut(v));
                    match slot {
                        Some(slot) if !*slot => *slot = true,
                        _ => return refuse(format!("{values:?} is not a permutation")),
                    }
                }
                self.permutations[*index] = values.iter().map(|&v| v as usize).collect();
            }
            (BufferKind::Fixed(fixed), BufferValue::Integers(values)) => {
                if let Some(i) = (0..expected).find(|&i| fixed[i] != values[i]) {
                    return refuse(format!(
                        "expected {} at index {i}, got {}",
                        fixed[i], values[i]
                    ));
                }
            }
            (BufferKind::Mask(mask), BufferValue::Reals(values)) => {
                let differs = |i: &usize| f64::from(mask[*i]) != values[*i].to_f64();
                if let Some(i) = (0..expected).find(differs) {
                    return refuse(format!(
                        "expected {} at index {i}, got {}",
                        mask[i],
                        values[i].to_f64()
                    ));
                }
            }
            (
                BufferKind::RunningMean(offset) | BufferKind::RunningVariance(offset),
                BufferValue::Reals(values),
            ) => self.statistics[*offset..*offset + expected].copy_from_slice(values),
            (BufferKind::BatchesTracked(index), BufferValue::Integers(values)) => {
                self.counters[*index] = values[0];
            }
            (_, BufferValue::Integers(_)) => return refuse("integers where reals belong".into()),
            (_, BufferValue::Reals(_)) => return refuse("reals where integers belong".into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn network(identity: bool) -> (Architecture, Layout) {
        let architecture = Architecture::from_json(&json!({"posterior_kwargs": {
            "input_dim": 5, "context_dim": 2, "num_flow_steps": 3,
            "base_transform_kwargs": {
                "hidden_dim": 8, "norm": "BatchNorm", "identity_init": identity,
                "base_transform_type": "rq-coupling"
            }
        }}))
        .unwrap();
        let layout = Layout::new(&architecture).unwrap();
        (architecture, layout)
    }

    #[test]
    fn initialization_follows_from_the_seed() {
        let (architecture, layout) = network(false);
        let one: NetworkState<f32> = NetworkState::initialize(&architecture, &layout, 1);
        assert_eq!(one, NetworkState::initialize(&architecture, &layout, 1));
        let two: NetworkState<f32> = NetworkState::initialize(&architecture, &layout, 2);
        assert_ne!(one.parameters, two.parameters);
        assert_ne!(one.permutations, two.permutations);
        for spec in layout.parameters() {
            let values = one.parameter(spec);
            if spec.name.ends_with("linear_layers.1.weight") {
                assert!(values.iter().all(|v| v.abs() <= 1e-3), "{}", spec.name);
            }
            if spec.name.ends_with("initial_layer.weight") {
                let bound = 1.0 / (spec.shape[1] as f32).sqrt();
                assert!(values.iter().all(|v| v.abs() <= bound), "{}", spec.name);
                assert!(
                    values.iter().any(|v| v.abs() > 0.5 * bound),
                    "{}",
                    spec.name
                );
            }
        }
        assert!(one.statistics.iter().filter(|&&v| v == 1.0).count() * 2 == one.statistics.len());
    }

    #[test]
    fn permutations_of_an_identity_network_compose_to_the_identity() {
        let (architecture, layout) = network(true);
        let state: NetworkState<f64> = NetworkState::initialize(&architecture, &layout, 3);
        let mut x: Vec<usize> = (0..5).collect();
        for p in &state.permutations {
            x = p.iter().map(|&j| x[j]).collect();
        }
        assert_eq!(x, [0, 1, 2, 3, 4]);
        assert!(state.permutations.iter().any(|p| p != &[0, 1, 2, 3, 4]));
    }

    #[test]
    fn buffers_that_contradict_the_architecture_are_refused() {
        let (architecture, layout) = network(false);
        let mut state: NetworkState<f64> = NetworkState::initialize(&architecture, &layout, 3);
        for spec in layout.buffers() {
            let value = state.buffer(spec);
            state.set_buffer(spec, &value).unwrap();
            let wrong = match spec.kind {
                BufferKind::Permutation(_) => BufferValue::Integers(vec![0; 5]),
                BufferKind::Fixed(ref v) => {
                    BufferValue::Integers(v.iter().map(|v| v + 1).collect())
                }
                _ => continue,
            };
            let error = state.set_buffer(spec, &wrong).unwrap_err().to_string();
            assert!(error.contains(&spec.name), "{error}");
        }
    }
}
