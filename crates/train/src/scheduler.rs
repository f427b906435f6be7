//! How the learning rate moves: torch's schedules, one step after every epoch.
//!
//! The rates follow torch's recurrences, not their closed forms, so that they agree with a dingo run
//! to the last digits. The whole state is in [`SchedulerState`]: a schedule resumed from it goes on
//! bit for bit. Deliberately not here: schedules within an epoch, several parameter groups.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use crate::settings::{SchedulerSettings, ThresholdMode};
use crate::{Error, Result};

/// A schedule and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduler {
    settings: SchedulerSettings,
    state: SchedulerState,
}

/// Where a schedule stands; what a checkpoint keeps of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerState {
    /// Epochs since the schedule began.
    pub epoch: usize,
    /// The rate it began with.
    pub base_lr: f64,
    /// The rate of the next epoch.
    pub lr: f64,
    /// Lowest test loss so far; plateau only.
    pub best: Option<f64>,
    /// Epochs in a row without improvement; plateau only.
    pub bad_epochs: usize,
    /// Epochs left in which nothing is counted; plateau only.
    pub cooldown_left: usize,
}

impl Scheduler {
    /// A schedule that begins with rate `lr`.
    pub fn new(settings: SchedulerSettings, lr: f64) -> Self {
        let state = SchedulerState {
            epoch: 0,
            base_lr: lr,
            lr,
            best: None,
            bad_epochs: 0,
            cooldown_left: 0,
        };
        Self { settings, state }
    }

    /// A schedule that goes on from `state`.
    ///
    /// # Errors
    /// [`Error::NonFinite`] if a rate or loss of the state is no number.
    pub fn resume(settings: SchedulerSettings, state: SchedulerState) -> Result<Self> {
        finite("scheduler state, lr", state.lr)?;
        finite("scheduler state, base_lr", state.base_lr)?;
        finite("scheduler state, best", state.best.unwrap_or(0.0))?;
        Ok(Self { settings, state })
    }

    /// The rate of the next epoch.
    pub fn lr(&self) -> f64 {
        self.state.lr
    }

    /// What a checkpoint keeps.
    pub fn state(&self) -> &SchedulerState {
        &self.state
    }

    /// Ends an epoch and returns the rate of the next one.
    ///
    /// With t epochs done, T = `T_max`, e = `eta_min`:
    /// - step: `lr gamma` if `step_size` divides t;
    /// - cosine: `(1 + cos(pi t / T)) / (1 + cos(pi (t - 1) / T)) (lr - e) + e`, and after each
    ///   minimum `lr + (base_lr - e) (1 - cos(pi / T)) / 2`;
    /// - plateau: `max(lr factor, min_lr)` after more than `patience` epochs without improvement.
    ///
    /// # Numerics
    /// torch's own order of operations in float64: equal to its rates to 1e-15 relative
    /// (test `rates_are_torchs`).
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a test loss that is no number; the state stays as it was.
    pub fn step(&mut self, test_loss: f64) -> Result<f64> {
        finite("test loss given to the scheduler", test_loss)?;
        let state = &mut self.state;
        let done = state.epoch + 1;
        match self.settings {
            SchedulerSettings::None => {}
            SchedulerSettings::Step { step_size, gamma } => {
                if done.is_multiple_of(step_size) {
                    state.lr *= gamma;
                }
            }
            SchedulerSettings::Cosine { t_max, eta_min } => {
                state.lr = cosine(state, done, t_max, eta_min);
            }
            SchedulerSettings::ReduceOnPlateau {
                factor,
                patience,
                threshold,
                threshold_mode,
                cooldown,
                min_lr,
                eps,
            } => {
                let better = state.best.is_none_or(|best| match threshold_mode {
                    ThresholdMode::Rel => test_loss < best * (1.0 - threshold),
                    ThresholdMode::Abs => test_loss < best - threshold,
                });
                if better {
                    state.best = Some(test_loss);
                    state.bad_epochs = 0;
                } else {
                    state.bad_epochs += 1;
                }
                if state.cooldown_left > 0 {
                    state.cooldown_left -= 1;
                    state.bad_epochs = 0;
                }
                if state.bad_epochs > patience {
                    let lower = (state.lr * factor).max(min_lr);
                    if state.lr - lower > eps {
                        state.lr = lower;
                    }
                    state.cooldown_left = cooldown;
                    state.bad_epochs = 0;
                }
            }
        }
        state.epoch = done;
        Ok(state.lr)
    }
}

fn cosine(state: &SchedulerState, done: usize, t_max: usize, eta_min: f64) -> f64 {
    let (t, length) = (done as f64, t_max as f64);
    // The recurrence divides by zero one epoch after each minimum, which comes every 2 T epochs.
    if done > t_max && (done - 1 - t_max).is_multiple_of(2 * t_max) {
        return state.lr + (state.base_lr - eta_min) * (1.0 - (PI / length).cos()) / 2.0;
    }
    (1.0 + (PI * t / length).cos()) / (1.0 + (PI * (t - 1.0) / length).cos()) * (state.lr - eta_min)
        + eta_min
}

fn finite(name: &str, value: f64) -> Result<()> {
    if value.is_finite() {
        return Ok(());
    }
    Err(Error::NonFinite {
        name: name.into(),
        found: value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(settings: SchedulerSettings, lr: f64, losses: &[f64]) -> Vec<f64> {
        let mut scheduler = Scheduler::new(settings, lr);
        let mut rates = vec![scheduler.lr()];
        for &loss in losses {
            rates.push(scheduler.step(loss).unwrap());
        }
        rates
    }

    /// The largest difference is 1e-15 of the expected rate, or of the first where that is 0.
    fn agree(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (epoch, (found, expected)) in found.iter().zip(expected).enumerate() {
            let scale = if *expected == 0.0 {
                0.0
            } else {
                expected.abs()
            };
            assert!(
                (found - expected).abs() <= 1e-15 * scale,
                "epoch {epoch}: {found:e}, expected {expected:e}"
            );
        }
    }

    fn cosine(t_max: usize, eta_min: f64) -> SchedulerSettings {
        SchedulerSettings::Cosine { t_max, eta_min }
    }

    fn plateau() -> SchedulerSettings {
        SchedulerSettings::ReduceOnPlateau {
            factor: 0.5,
            patience: 1,
            threshold: 1e-4,
            threshold_mode: ThresholdMode::Rel,
            cooldown: 2,
            min_lr: 1e-4,
            eps: 1e-8,
        }
    }

    const LOSSES: [f64; 18] = [
        3.0, 2.9, 2.95, 2.95, 2.89999, 2.95, 3.0, 3.0, 3.0, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0,
        3.0,
    ];

    /// The expected rates are those of torch 2.11's `lr_scheduler.py`.
    #[test]
    fn rates_are_torchs() {
        #[rustfmt::skip]
        agree(&rates(cosine(5, 0.0), 1e-3, &[0.0; 16]), &[
            0.001, 0.0009045084971874737, 0.0006545084971874737, 0.00034549150281252633,
            9.549150281252633e-05, 0.0, 9.549150281252627e-05, 0.0003454915028125264,
            0.000654508497187474, 0.0009045084971874742, 0.0010000000000000005,
            0.0009045084971874745, 0.0006545084971874742, 0.0003454915028125266,
            9.549150281252642e-05, 0.0, 9.549150281252627e-05,
        ]);
        #[rustfmt::skip]
        agree(&rates(cosine(7, 1e-5), 5e-5, &[0.0; 20]), &[
            5e-05, 4.801937735804838e-05, 4.246979603717467e-05, 3.445041867912629e-05,
            2.5549581320873717e-05, 1.753020396282533e-05, 1.1980622641951619e-05, 1e-05,
            1.1980622641951619e-05, 1.753020396282533e-05, 2.5549581320873717e-05,
            3.4450418679126284e-05, 4.2469796037174684e-05, 4.801937735804841e-05,
            5.000000000000002e-05, 4.801937735804841e-05, 4.24697960371747e-05,
            3.44504186791263e-05, 2.554958132087373e-05, 1.753020396282534e-05,
            1.1980622641951624e-05,
        ]);
        agree(
            &rates(cosine(1, 0.0), 1e-3, &[0.0; 4]),
            &[1e-3, 0.0, 1e-3, 0.0, 1e-3],
        );
        let long = rates(cosine(300, 0.0), 5e-5, &[0.0; 300]);
        agree(
            &[1, 100, 150, 299, 300].map(|epoch| long[epoch]),
            &[
                4.999862923413781e-05,
                3.750000000000002e-05,
                2.5000000000000018e-05,
                1.3707658621964205e-09,
                0.0,
            ],
        );
        let step = |step_size, gamma| SchedulerSettings::Step { step_size, gamma };
        #[rustfmt::skip]
        agree(&rates(step(3, 0.1), 0.3, &[0.0; 10]), &[
            0.3, 0.3, 0.3, 0.03, 0.03, 0.03, 0.003, 0.003, 0.003, 0.00030000000000000003,
            0.00030000000000000003,
        ]);
        agree(
            &rates(step(2, 0.7), 1e-3, &[0.0; 7]),
            &[
                0.001, 0.001, 0.0007, 0.0007, 0.00049, 0.00049, 0.000343, 0.000343,
            ],
        );
        #[rustfmt::skip]
        agree(&rates(plateau(), 1e-3, &LOSSES), &[
            0.001, 0.001, 0.001, 0.001, 0.0005, 0.0005, 0.0005, 0.0005, 0.00025, 0.00025, 0.00025,
            0.00025, 0.000125, 0.000125, 0.000125, 0.000125, 0.0001, 0.0001, 0.0001,
        ]);
        let absolute = SchedulerSettings::ReduceOnPlateau {
            factor: 0.1,
            patience: 0,
            threshold: 0.06,
            threshold_mode: ThresholdMode::Abs,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-5,
        };
        let mut expected = vec![0.001, 0.001, 0.001, 0.0001];
        expected.extend([1e-5; 15]);
        agree(&rates(absolute, 1e-3, &LOSSES), &expected);
        agree(&rates(SchedulerSettings::None, 0.25, &[1.0; 3]), &[0.25; 4]);
    }

    /// Rates that dingo 0.10.3 wrote in a run of two stages of 40 and 20 epochs.
    #[test]
    fn rates_are_those_of_a_dingo_run() {
        let first = rates(cosine(40, 0.0), 1e-3, &[0.0; 39]);
        let second = rates(cosine(20, 0.0), 3e-4, &[0.0; 19]);
        let all: Vec<f64> = first.into_iter().chain(second).collect();
        for (epoch, expected) in DINGO_RATES {
            agree(&[all[epoch - 1]], &[expected]);
        }
    }

    const DINGO_RATES: [(usize, f64); 12] = [
        (1, 0.001),
        (2, 0.000998458666866564),
        (3, 0.0009938441702975688),
        (10, 0.0008802029828000154),
        (20, 0.0005392295478639224),
        (30, 0.00017527597583490815),
        (39, 6.155829702431168e-06),
        (40, 1.5413331334360176e-06),
        (41, 0.0003),
        (42, 0.00029815325108927063),
        (50, 0.00017346516975603468),
        (60, 1.8467489107293517e-06),
    ];

    #[test]
    fn a_resumed_schedule_goes_on_bit_for_bit() {
        for settings in [
            plateau(),
            cosine(5, 1e-5),
            SchedulerSettings::Step {
                step_size: 3,
                gamma: 0.7,
            },
            SchedulerSettings::None,
        ] {
            let straight = rates(settings, 1e-3, &LOSSES);
            for stop in 0..LOSSES.len() {
                let mut scheduler = Scheduler::new(settings, 1e-3);
                for &loss in &LOSSES[..stop] {
                    scheduler.step(loss).unwrap();
                }
                let saved = serde_json::to_string(scheduler.state()).unwrap();
                let state = serde_json::from_str(&saved).unwrap();
                let mut resumed = Scheduler::resume(settings, state).unwrap();
                for (&loss, expected) in LOSSES[stop..].iter().zip(&straight[stop + 1..]) {
                    let rate = resumed.step(loss).unwrap();
                    assert_eq!(
                        rate.to_bits(),
                        expected.to_bits(),
                        "{settings:?} from {stop}"
                    );
                }
            }
        }
    }

    #[test]
    fn point_23_a_loss_that_is_no_number_is_an_error_and_no_bad_epoch() {
        let mut scheduler = Scheduler::new(plateau(), 1e-3);
        scheduler.step(3.0).unwrap();
        let before = *scheduler.state();
        for loss in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for _ in 0..5 {
                let error = scheduler.step(loss).unwrap_err();
                assert!(matches!(error, Error::NonFinite { .. }), "{error}");
            }
        }
        assert_eq!(*scheduler.state(), before);
        let broken = SchedulerState {
            lr: f64::NAN,
            ..before
        };
        assert!(Scheduler::resume(plateau(), broken).is_err());
    }
}
