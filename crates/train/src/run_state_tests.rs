use super::*;
use crate::Settings;

fn training(stages: &[(usize, Option<usize>)]) -> TrainingSettings {
    let blocks: Vec<String> = stages
        .iter()
        .enumerate()
        .map(|(index, (epochs, patience))| {
            let stopping = match patience {
                Some(patience) => format!(", early_stopping: {{patience: {patience}}}"),
                None => String::new(),
            };
            format!(
                "stage_{index}: {{epochs: {epochs}, batch_size: 4, optimizer: {{type: adam, lr: \
                 {}}}{stopping}}}",
                1e-3 / (index + 1) as f64
            )
        })
        .collect();
    let text = format!(
        "data: {{simulations: s.npz}}\nmodel: {{posterior_kwargs: {{num_flow_steps: 1}}}}\n\
         training: {{{}}}",
        blocks.join(", ")
    );
    Settings::from_yaml(&text).unwrap().0.training
}

const FREE: RuntimeLimits = RuntimeLimits {
    max_time_per_run: None,
    max_epochs_per_run: None,
};

fn result(test_loss: f64) -> EpochResult {
    EpochResult {
        train_loss: 1.0,
        test_loss,
        steps: 10,
        samples: 100,
    }
}

/// What a run did, in words.
#[derive(Debug, PartialEq)]
enum Did {
    Began(usize),
    Trained(usize, usize),
    Ended(usize, StageEnding),
    Paused(Limit),
    Finished,
}

/// Goes on until the run ends or pauses; every step survives a checkpoint.
fn run(
    mut state: RunState,
    training: &TrainingSettings,
    limits: &RuntimeLimits,
    loss: impl Fn(usize, usize) -> f64,
) -> (RunState, Vec<Did>) {
    let mut used = RunUse::default();
    let mut did = Vec::new();
    loop {
        let saved = serde_json::to_string(&state).unwrap();
        state = serde_json::from_str(&saved).unwrap();
        match state.next(training, limits, &used).unwrap() {
            Action::BeginStage { stage } => {
                state = state.begin_stage(training).unwrap();
                did.push(Did::Began(stage));
            }
            Action::TrainEpoch {
                stage,
                epoch_in_stage,
            } => {
                did.push(Did::Trained(stage, epoch_in_stage));
                let result = result(loss(stage, epoch_in_stage));
                let (next, transition) = state.finish_epoch(training, &result).unwrap();
                state = next;
                used.epochs += 1;
                used.seconds += 10.0;
                if let Some((stage, ending)) = transition.finished_stage {
                    did.push(Did::Ended(stage, ending));
                }
                assert_eq!(transition.finished_run, state.finished);
            }
            Action::Pause(limit) => {
                did.push(Did::Paused(limit));
                return (state, did);
            }
            Action::Finish => {
                did.push(Did::Finished);
                return (state, did);
            }
        }
    }
}

fn falling(_: usize, epoch: usize) -> f64 {
    10.0 - epoch as f64
}

#[test]
fn stages_follow_one_another() {
    let training = training(&[(2, None), (1, None)]);
    let (state, did) = run(RunState::new(), &training, &FREE, falling);
    use Did::*;
    use StageEnding::Completed;
    assert_eq!(
        did,
        [
            Began(0),
            Trained(0, 0),
            Trained(0, 1),
            Ended(0, Completed),
            Began(1),
            Trained(1, 0),
            Ended(1, Completed),
            Finished
        ]
    );
    assert!(state.finished);
    assert_eq!(
        (state.epoch, state.global_step, state.samples_seen),
        (3, 30, 300)
    );
}

/// Point 20 and case 25: [300, 150] epochs, early stop after 120.
#[test]
fn point_20_an_early_stop_ends_its_stage_and_the_next_one_begins_anew() {
    let training = training(&[(300, Some(20)), (150, None)]);
    let loss = |stage, epoch| {
        if stage == 0 && epoch >= 100 {
            500.0
        } else {
            200.0 - epoch as f64
        }
    };
    let (state, did) = run(RunState::new(), &training, &FREE, loss);
    let trained = |stage| {
        did.iter()
            .filter(|d| matches!(d, Did::Trained(s, _) if *s == stage))
            .count()
    };
    assert_eq!(trained(0), 120);
    assert_eq!(trained(1), 150);
    let ended = did
        .iter()
        .position(|d| *d == Did::Ended(0, StageEnding::EarlyStopped));
    let began = did.iter().position(|d| *d == Did::Began(1));
    assert_eq!(ended.map(|index| index + 1), began);
    assert_eq!(did[began.unwrap() + 1], Did::Trained(1, 0));
    assert_eq!(
        state.finished_stages,
        [
            FinishedStage {
                epochs: 120,
                ending: StageEnding::EarlyStopped
            },
            FinishedStage {
                epochs: 150,
                ending: StageEnding::Completed
            },
        ]
    );
    assert_eq!(training.stages[1].optimizer.lr(), 5e-4);
}

/// Point 21: the run is finished, not paused, and stays so.
#[test]
fn point_21_an_early_stop_in_the_last_stage_finishes_the_run() {
    let training = training(&[(100, Some(3))]);
    let limits = RuntimeLimits {
        max_epochs_per_run: Some(5),
        ..FREE
    };
    // The best epoch is the second, so that the fifth is the last of the stage and of the limit.
    let (state, did) = run(RunState::new(), &training, &limits, |_, epoch| {
        if epoch == 1 { 1.0 } else { 2.0 }
    });
    assert_eq!(did.last(), Some(&Did::Finished));
    assert_eq!(state.finished_stages[0].ending, StageEnding::EarlyStopped);
    let (_, did) = run(state, &training, &limits, falling);
    assert_eq!(did, [Did::Finished]);
}

/// Point 25: patience and best loss live on over any number of resumed runs.
#[test]
fn pauses_change_nothing() {
    let training = training(&[(8, Some(2)), (3, None), (6, Some(3))]);
    let loss = |stage: usize, epoch: usize| [9.0, 8.0, 8.5, 8.0, 8.1, 8.2][(stage + epoch) % 6];
    let (straight, all) = run(RunState::new(), &training, &FREE, loss);
    let all: Vec<Did> = all.into_iter().filter(|d| *d != Did::Finished).collect();
    for epochs in 1..6 {
        let limits = RuntimeLimits {
            max_epochs_per_run: Some(epochs),
            ..FREE
        };
        let mut state = RunState::new();
        let mut did = Vec::new();
        while !state.finished {
            let (next, part) = run(state, &training, &limits, loss);
            state = next;
            did.extend(
                part.into_iter()
                    .filter(|d| !matches!(d, Did::Paused(_) | Did::Finished)),
            );
        }
        assert_eq!(state, straight);
        assert_eq!(did, all);
    }
}

#[test]
fn limits_are_soft_and_named() {
    let training = training(&[(5, None)]);
    let limits = RuntimeLimits {
        max_time_per_run: Some(25.0),
        ..FREE
    };
    let (state, did) = run(RunState::new(), &training, &limits, falling);
    assert_eq!(did.last(), Some(&Did::Paused(Limit::Time)));
    assert_eq!(state.epoch_in_stage, 3);
    assert!(!state.finished);
    let limits = RuntimeLimits {
        max_epochs_per_run: Some(2),
        ..FREE
    };
    let (state, did) = run(state, &training, &limits, falling);
    // The limit is reached with the last epoch: the run is finished all the same.
    assert_eq!(did.last(), Some(&Did::Finished));
    assert!(state.finished);
}

#[test]
fn the_best_epoch_is_that_of_its_stage() {
    let training = training(&[(3, None), (2, None)]);
    let mut state = RunState::new();
    let mut best = Vec::new();
    for (index, loss) in [3.0, 2.0, 2.0, 5.0, 4.0].into_iter().enumerate() {
        if index == 0 || index == 3 {
            state = state.begin_stage(&training).unwrap();
        }
        let (next, transition) = state.finish_epoch(&training, &result(loss)).unwrap();
        best.push(transition.best);
        state = next;
    }
    // Without early stopping an equal loss is no news; the second stage starts afresh.
    assert_eq!(best, [true, true, false, true, true]);
}

/// Point 23.
#[test]
fn a_loss_that_is_no_number_changes_nothing() {
    let training = training(&[(3, Some(1))]);
    let state = RunState::new().begin_stage(&training).unwrap();
    for loss in [f64::NAN, f64::INFINITY] {
        let error = state.finish_epoch(&training, &result(loss)).unwrap_err();
        assert!(matches!(error, Error::NonFinite { .. }), "{error}");
        let train = EpochResult {
            train_loss: loss,
            ..result(1.0)
        };
        let error = state
            .finish_epoch(&training, &train)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("training loss: expected a finite number"),
            "{error}"
        );
    }
}

#[test]
fn states_of_other_settings_are_refused() {
    let long = training(&[(3, None), (2, None)]);
    let short = training(&[(2, None)]);
    let (finished, _) = run(RunState::new(), &long, &FREE, falling);
    let used = RunUse::default();
    for (state, training) in [
        (finished.clone(), &short),
        (
            RunState {
                finished: false,
                ..finished.clone()
            },
            &long,
        ),
        (
            RunState {
                epoch: 4,
                ..finished.clone()
            },
            &long,
        ),
        (
            RunState {
                finished: true,
                ..RunState::new()
            },
            &short,
        ),
        (
            RunState {
                epoch_in_stage: 1,
                epoch: 1,
                ..RunState::new()
            },
            &short,
        ),
        (
            RunState {
                stage_begun: true,
                epoch_in_stage: 2,
                epoch: 2,
                ..RunState::new()
            },
            &short,
        ),
    ] {
        let found = state.next(training, &FREE, &used);
        assert!(
            matches!(found, Err(Error::State { .. })),
            "{state:?}: {found:?}"
        );
    }
    assert!(finished.begin_stage(&long).is_err());
    assert!(RunState::new().finish_epoch(&long, &result(1.0)).is_err());
    let begun = RunState::new().begin_stage(&long).unwrap();
    assert!(begun.begin_stage(&long).is_err());
}

#[test]
fn the_reduced_basis_stays_as_the_last_word_on_it() {
    let mut training = training(&[(1, None), (1, None), (1, None), (1, None)]);
    let frozen =
        |training: &TrainingSettings| [0, 1, 2, 3].map(|s| training.reduced_basis_frozen(s));
    assert_eq!(frozen(&training), [false; 4]);
    training.stages[1].freeze_rb_layer = Some(true);
    training.stages[3].freeze_rb_layer = Some(false);
    assert_eq!(frozen(&training), [false, true, true, false]);
}
