//! Batch norm over several workers equals batch norm over all rows.

use std::sync::{Arc, Barrier, Mutex};

use dunnart_flow::eager::{SplinePath, StepOptions};
use dunnart_flow::reduction::{BatchReduction, Moments};
use dunnart_flow::{Error, Result};

use crate::support::{Setup, close, embedding, flow, options, wide};

/// Workers that are threads of this process.
#[derive(Debug)]
struct Meeting {
    barrier: Barrier,
    moments: Mutex<Vec<Option<Moments>>>,
    sums: Mutex<Vec<Vec<f64>>>,
}

#[derive(Debug)]
struct Worker {
    number: usize,
    meeting: Arc<Meeting>,
}

impl BatchReduction for Worker {
    fn is_local(&self) -> bool {
        false
    }

    fn moments(&self, moments: &mut Moments) -> Result<()> {
        self.meeting.moments.lock().unwrap()[self.number] = Some(moments.clone());
        self.meeting.barrier.wait();
        let mut all = Moments::none(moments.mean.len());
        for part in self.meeting.moments.lock().unwrap().iter().flatten() {
            all.merge(part)?;
        }
        self.meeting.barrier.wait();
        *moments = all;
        Ok(())
    }

    fn sums(&self, sums: &mut [f64]) -> Result<()> {
        self.meeting.sums.lock().unwrap()[self.number] = sums.to_vec();
        self.meeting.barrier.wait();
        sums.fill(0.0);
        for part in self.meeting.sums.lock().unwrap().iter() {
            for (sum, x) in sums.iter_mut().zip(part) {
                *sum += x;
            }
        }
        self.meeting.barrier.wait();
        Ok(())
    }
}

/// Loss, gradients and statistics summed over workers that hold the given rows.
fn shared(setup: &Setup, parts: &[Vec<u64>]) -> (f64, Vec<f64>, Vec<f64>) {
    let meeting = Arc::new(Meeting {
        barrier: Barrier::new(parts.len()),
        moments: Mutex::new(vec![None; parts.len()]),
        sums: Mutex::new(vec![vec![]; parts.len()]),
    });
    let total: usize = parts.iter().map(Vec::len).sum();
    let work = |number: usize, rows: &[u64]| {
        let reduction = Arc::new(Worker {
            number,
            meeting: Arc::clone(&meeting),
        });
        let mut storage = setup.storage(&setup.state::<f64>(5));
        let gradients = storage.zeros().unwrap();
        let mut training = setup
            .network(SplinePath::Fused)
            .training_with(&storage, &gradients, &setup.all(), reduction)
            .unwrap();
        let weight = rows.len() as f64 / total as f64;
        let step = StepOptions {
            weight,
            ..options()
        };
        let batch = setup.batch::<f64>(rows);
        let loss = training
            .loss_and_gradients(&mut storage, &batch, &step, &mut |_| {})
            .unwrap();
        let statistics = wide(&storage.statistics);
        (weight * wide(&loss)[0], wide(&gradients), statistics)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(number, rows)| scope.spawn(move || work(number, rows)))
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    let loss = results.iter().map(|r| r.0).sum();
    let gradients = (0..results[0].1.len())
        .map(|i| results.iter().map(|r| r.1[i]).sum())
        .collect();
    for result in &results {
        assert_eq!(result.2, results[0].2, "workers have the same statistics");
    }
    (loss, gradients, results[0].2.clone())
}

#[test]
fn workers_together_compute_what_one_computes_alone() {
    let setups = [
        flow(4, 3, 2, &serde_json::json!({"norm": "BatchNorm"})),
        flow(
            3,
            2,
            2,
            &serde_json::json!({"norm": "BatchNorm", "base_transform_type": "rq-autoregressive"}),
        ),
        embedding("BatchNorm", 1),
    ];
    for setup in &setups {
        let rows: Vec<u64> = (0..12).collect();
        let state = setup.state::<f64>(5);
        let mut storage = setup.storage(&state);
        let gradients = storage.zeros().unwrap();
        let batch = setup.batch::<f64>(&rows);
        let loss = setup
            .network(SplinePath::Fused)
            .training(&storage, &gradients, &setup.all())
            .unwrap()
            .loss_and_gradients(&mut storage, &batch, &options(), &mut |_| {})
            .unwrap();
        // One worker has a single row: its own variance would be zero.
        for parts in [
            vec![rows.clone()],
            vec![rows[..5].to_vec(), rows[5..].to_vec()],
            vec![rows[..1].to_vec(), rows[1..7].to_vec(), rows[7..].to_vec()],
        ] {
            let (together, gradient, statistics) = shared(setup, &parts);
            close("loss", &[together], &wide(&loss), 1e-12);
            close("gradients", &gradient, &wide(&gradients), 1e-11);
            close("statistics", &statistics, &wide(&storage.statistics), 1e-12);
        }
    }
}

/// A worker that cannot be reached.
#[derive(Debug)]
struct Gone;

impl BatchReduction for Gone {
    fn is_local(&self) -> bool {
        false
    }

    fn moments(&self, _: &mut Moments) -> Result<()> {
        Err(Error::Reduction("worker 3 is gone".into()))
    }

    fn sums(&self, _: &mut [f64]) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_lost_worker_is_an_error() {
    let setup = flow(4, 3, 2, &serde_json::json!({"norm": "BatchNorm"}));
    let mut storage = setup.storage(&setup.state::<f64>(5));
    let gradients = storage.zeros().unwrap();
    let error = setup
        .network(SplinePath::Fused)
        .training_with(&storage, &gradients, &setup.all(), Arc::new(Gone))
        .unwrap()
        .loss_and_gradients(
            &mut storage,
            &setup.batch::<f64>(&[1, 2, 3]),
            &options(),
            &mut |_| {},
        )
        .unwrap_err()
        .to_string();
    assert!(error.contains("worker 3 is gone"), "{error}");
    assert!(!error.contains("frame #"), "{error}");
}
