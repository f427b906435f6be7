//! When a stage ends before its epochs are done: dingo's rule, with its state in the open.

use serde::{Deserialize, Serialize};

use crate::settings::{EarlyStoppingSettings, Metric};

/// What early stopping remembers; what a checkpoint keeps of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyStopping {
    /// The best loss so far; always a finite number.
    pub best: Option<f64>,
    /// Epochs in a row that were worse.
    pub worse_epochs: usize,
    /// Whether the stage is to end.
    pub stopped: bool,
}

/// What early stopping says about an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The loss is the best so far, or equals it.
    Best,
    /// The loss is worse, and that is still borne.
    Worse,
    /// The loss is worse for the last time.
    Stop,
}

impl EarlyStopping {
    /// The state after an epoch, and what it means.
    ///
    /// With `score = -loss`, an epoch is worse if `score < best + delta`; equality counts as an
    /// improvement. A loss that is no finite number is worse and never the best. The stage ends
    /// after `patience` worse epochs in a row.
    pub fn after(self, settings: &EarlyStoppingSettings, loss: f64) -> (Self, Verdict) {
        // Comparing scores, in this order, rounds as the reference does.
        let improved =
            loss.is_finite() && self.best.is_none_or(|best| -loss >= -best + settings.delta);
        if improved {
            let state = Self {
                best: Some(loss),
                worse_epochs: 0,
                stopped: self.stopped,
            };
            return (state, Verdict::Best);
        }
        let worse_epochs = self.worse_epochs + 1;
        let stopped = self.stopped || worse_epochs >= settings.patience;
        let state = Self {
            worse_epochs,
            stopped,
            ..self
        };
        let verdict = if stopped {
            Verdict::Stop
        } else {
            Verdict::Worse
        };
        (state, verdict)
    }
}

impl EarlyStoppingSettings {
    /// The loss that is watched.
    pub fn watched(&self, train_loss: f64, test_loss: f64) -> f64 {
        match self.metric {
            Metric::Validation => test_loss,
            Metric::Training => train_loss,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(patience: usize, delta: f64) -> EarlyStoppingSettings {
        EarlyStoppingSettings {
            patience,
            verbose: false,
            delta,
            metric: Metric::Validation,
        }
    }

    fn verdicts(settings: &EarlyStoppingSettings, losses: &[f64]) -> (Vec<Verdict>, EarlyStopping) {
        let mut state = EarlyStopping::default();
        let mut verdicts = Vec::new();
        for &loss in losses {
            let (next, verdict) = state.after(settings, loss);
            state = next;
            verdicts.push(verdict);
        }
        (verdicts, state)
    }

    use Verdict::{Best, Stop, Worse};

    #[test]
    fn case_16_a_loss_that_is_no_number_is_never_the_best() {
        let losses = [3.0, 2.5, f64::NAN, f64::NAN, 2.4];
        let (found, state) = verdicts(&settings(5, 0.0), &losses);
        assert_eq!(found, [Best, Best, Worse, Worse, Best]);
        assert_eq!(state.best, Some(2.4));
        let (_, before) = verdicts(&settings(5, 0.0), &losses[..4]);
        assert_eq!(before.best, Some(2.5));
        let (found, state) = verdicts(&settings(2, 0.0), &losses[..4]);
        assert_eq!(found, [Best, Best, Worse, Stop]);
        assert_eq!(state.best, Some(2.5));
        // Nor if it is the first, nor an infinity of either sign.
        let (found, state) = verdicts(
            &settings(9, 0.0),
            &[f64::NAN, f64::NEG_INFINITY, f64::INFINITY],
        );
        assert_eq!(found, [Worse; 3]);
        assert_eq!(state.best, None);
    }

    #[test]
    fn equal_counts_as_an_improvement() {
        let (found, _) = verdicts(&settings(2, 0.0), &[1.0, 1.0, 1.0, 1.5, 1.0, 1.5, 1.5]);
        assert_eq!(found, [Best, Best, Best, Worse, Best, Worse, Stop]);
        // With delta, an epoch must be better by that much, or exactly that much.
        let (found, state) = verdicts(&settings(3, 0.25), &[1.0, 0.9, 0.75, 0.5, 0.4, 0.26, 0.3]);
        assert_eq!(found, [Best, Worse, Best, Best, Worse, Worse, Stop]);
        assert_eq!(state.best, Some(0.5));
    }

    #[test]
    fn point_25_the_state_survives_a_checkpoint() {
        let losses = [3.0, 2.0, 2.5, 2.5, 1.5, 1.6, 1.6, 1.6];
        let settings = settings(3, 0.0);
        let (straight, _) = verdicts(&settings, &losses);
        for stop in 0..losses.len() {
            let (_, state) = verdicts(&settings, &losses[..stop]);
            let saved = serde_json::to_string(&state).unwrap();
            let mut state: EarlyStopping = serde_json::from_str(&saved).unwrap();
            for (&loss, &expected) in losses[stop..].iter().zip(&straight[stop..]) {
                let (next, verdict) = state.after(&settings, loss);
                state = next;
                assert_eq!(verdict, expected);
            }
            assert!(state.stopped);
        }
    }

    #[test]
    fn the_metric_chooses_the_loss() {
        let mut settings = settings(1, 0.0);
        assert_eq!(settings.watched(1.0, 2.0), 2.0);
        settings.metric = Metric::Training;
        assert_eq!(settings.watched(1.0, 2.0), 1.0);
    }
}
