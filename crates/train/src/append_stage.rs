//! Adding or replacing a planned stage of a run, in the settings that its checkpoint holds.
//!
//! A stage is planned until it has begun: what has been trained stays as it is on record. A finished
//! run with a stage appended is no longer finished, and resumes with that stage. Deliberately not
//! here: reading and writing the checkpoint.

use serde_json::Value;

use crate::run_state::RunState;
use crate::settings::{Settings, Warning};
use crate::{Error, Result};

/// Settings and state of a run with one more, or another, planned stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Appended {
    /// The settings, with every default filled in.
    pub settings: Value,
    /// Where the run stands.
    pub state: RunState,
    /// Index of the new stage.
    pub stage: usize,
    /// What the author of the stage should know.
    pub warnings: Vec<Warning>,
}

/// Puts the block `stage` at the end of the stages, or in the place of stage `replace`.
///
/// # Errors
/// [`Error::State`] if the stage to be replaced does not exist or has begun; whatever
/// [`Settings::from_value`] finds wrong, named `training.stage_N`.
pub fn append_stage(
    settings: &Value,
    state: &RunState,
    stage: &Value,
    replace: Option<usize>,
) -> Result<Appended> {
    let (before, _) = Settings::from_value(settings)?;
    let stages = before.training.stages.len();
    // The state must fit the old stages before it can be said to fit the new ones.
    state.next(&before.training, &Default::default(), &Default::default())?;
    let index = replace.unwrap_or(stages);
    if let Some(index) = replace {
        if index >= stages {
            return Err(Error::State {
                name: format!("stage {index}"),
                expected: format!("a stage of this run, 0 to {}", stages - 1),
                found: index.to_string(),
            });
        }
        if index < state.stage || (index == state.stage && state.stage_begun) {
            let found = if index < state.stage {
                "a finished one"
            } else {
                "one under way"
            };
            return Err(Error::State {
                name: format!("stage {index}"),
                expected: "a stage that has not begun".into(),
                found: found.into(),
            });
        }
    }
    let mut tree = before.to_value()?;
    tree["training"][format!("stage_{index}")] = stage.clone();
    let (after, warnings) = Settings::from_value(&tree)?;
    let state = RunState {
        finished: state.stage == after.training.stages.len(),
        ..state.clone()
    };
    Ok(Appended {
        settings: after.to_value()?,
        state,
        stage: index,
        warnings,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run_state::{Action, FinishedStage, StageEnding};

    fn settings() -> Value {
        json!({
            "data": {"simulations": "s.npz"},
            "model": {"posterior_kwargs": {"num_flow_steps": 1}},
            "training": {
                "stage_0": {"epochs": 2, "batch_size": 4, "optimizer": {"type": "adam"}},
                "stage_1": {"epochs": 3, "batch_size": 4, "optimizer": {"type": "adam"}},
            },
        })
    }

    fn finished(stages: usize) -> RunState {
        let epochs = [2, 3];
        RunState {
            stage: stages,
            epoch: epochs[..stages].iter().sum(),
            finished_stages: epochs[..stages]
                .iter()
                .map(|&epochs| FinishedStage {
                    epochs,
                    ending: StageEnding::Completed,
                })
                .collect(),
            finished: stages == 2,
            ..RunState::new()
        }
    }

    fn stage() -> Value {
        json!({"epochs": 7, "batch_size": 8, "optimizer": {"type": "SGD", "lr": 0.5}})
    }

    #[test]
    fn a_finished_run_goes_on_with_the_appended_stage() {
        let appended = append_stage(&settings(), &finished(2), &stage(), None).unwrap();
        assert_eq!(appended.stage, 2);
        assert_eq!(appended.warnings, []);
        let (settings, _) = Settings::from_value(&appended.settings).unwrap();
        assert_eq!(settings.training.stages.len(), 3);
        assert_eq!(settings.training.stages[2].epochs, 7);
        let next =
            appended
                .state
                .next(&settings.training, &Default::default(), &Default::default());
        assert_eq!(next.unwrap(), Action::BeginStage { stage: 2 });
    }

    #[test]
    fn a_planned_stage_is_replaced() {
        let appended = append_stage(&settings(), &finished(1), &stage(), Some(1)).unwrap();
        let (settings, _) = Settings::from_value(&appended.settings).unwrap();
        assert_eq!(settings.training.stages.len(), 2);
        assert_eq!(settings.training.stages[0].epochs, 2);
        assert_eq!(settings.training.stages[1].epochs, 7);
        assert_eq!(appended.state, finished(1));
    }

    #[test]
    fn what_has_begun_stays() {
        let refused = |state: &RunState, replace| {
            append_stage(&settings(), state, &stage(), Some(replace))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(&finished(1), 0),
            "stage 0: expected a stage that has not begun, got a finished one"
        );
        let begun = RunState {
            stage_begun: true,
            ..finished(1)
        };
        assert_eq!(
            refused(&begun, 1),
            "stage 1: expected a stage that has not begun, got one under way"
        );
        assert_eq!(
            refused(&begun, 2),
            "stage 2: expected a stage of this run, 0 to 1, got 2"
        );
    }

    #[test]
    fn a_wrong_stage_is_named_where_it_would_stand() {
        let wrong = json!({"epochs": 7, "batch_size": 8, "optimizer": {"type": "sgd", "lrr": 1}});
        let error = append_stage(&settings(), &finished(2), &wrong, None).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`training.stage_2.optimizer.lrr`"),
            "{error}"
        );
        let error = append_stage(&settings(), &finished(2), &json!([1]), None).unwrap_err();
        assert!(error.to_string().contains("`training.stage_2`"), "{error}");
        // A whole settings file in the place of a stage.
        let error = append_stage(&settings(), &finished(2), &settings(), None).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`training.stage_2.optimizer` is missing"),
            "{error}"
        );
    }
}
