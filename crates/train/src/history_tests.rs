use serde_json::json;

use super::*;

fn row(epoch: usize, test_loss: f64) -> HistoryRow {
    HistoryRow {
        epoch,
        train_loss: 0.1,
        test_loss,
        learning_rates: vec![1e-5],
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.txt");
    (folder, path)
}

#[test]
fn rows_are_dingos_to_the_byte() {
    let (_folder, path) = folder();
    let mut history = History::new(&path);
    history
        .push(HistoryRow {
            epoch: 1,
            train_loss: 14.279050600152267,
            test_loss: 13.964570248921712,
            learning_rates: vec![0.001],
        })
        .unwrap();
    history
        .push(HistoryRow {
            epoch: 2,
            train_loss: 13.0,
            test_loss: f64::NAN,
            learning_rates: vec![1e-5, 2e-5],
        })
        .unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "1\t14.279050600152267\t13.964570248921712\t0.001\r\n2\t13.0\tnan\t1e-05\t2e-05\r\n"
    );
    let read = History::read(&path).unwrap();
    assert_eq!(read.rows()[0], history.rows()[0]);
    assert!(read.rows()[1].test_loss.is_nan());
}

#[test]
fn a_resumed_history_is_that_of_a_straight_run() {
    let (_folder, path) = folder();
    let mut history = History::new(&path);
    for epoch in 1..=6 {
        history.push(row(epoch, epoch as f64)).unwrap();
    }
    let straight = fs::read(&path).unwrap();
    let mut history = History::resume(&path, 3).unwrap();
    assert_eq!(history.rows().len(), 3);
    assert_eq!(History::read(&path).unwrap().rows().len(), 3);
    for epoch in 4..=6 {
        history.push(row(epoch, epoch as f64)).unwrap();
    }
    assert_eq!(fs::read(&path).unwrap(), straight);
    // Into a new folder a resumed run brings no rows, and begins with its own epoch.
    let mut history = History::resume(&path.with_file_name("other.txt"), 3).unwrap();
    history.push(row(4, 1.0)).unwrap();
    assert_eq!(history.rows()[0].epoch, 4);
}

#[test]
fn rows_out_of_order_are_refused() {
    let (_folder, path) = folder();
    let mut history = History::new(&path);
    history.push(row(1, 1.0)).unwrap();
    let before = fs::read(&path).unwrap();
    for epoch in [1, 3] {
        let error = history.push(row(epoch, 1.0)).unwrap_err();
        assert!(matches!(error, Error::State { .. }), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_no_history_is_named_with_its_line() {
    let (_folder, path) = folder();
    let good = "1\t1.0\t2.0\t0.1\r\n";
    for (bad, line) in [
        ("1\t1.0\t2.0\r\n", 2),
        ("2\t1.0\t2.0\tx\r\n", 2),
        ("2\t1.0\t2.0\r\n", 2),
        ("0\t1.0\t2.0\t0.1\r\n", 2),
        ("3\t1.0\t2.0\t0.1\r\n", 2),
        ("2\t1.0\t2.0\t0.1\r\n2\t1.0", 3),
        ("\r\n", 2),
        ("\0\0\0", 2),
    ] {
        fs::write(&path, format!("{good}{bad}")).unwrap();
        match History::read(&path) {
            Err(Error::History { line: found, .. }) => assert_eq!(found, line, "{bad:?}"),
            other => panic!("{bad:?}: {other:?}"),
        }
    }
    fs::write(&path, b"\xff\xfe").unwrap();
    assert!(matches!(History::read(&path), Err(Error::File { .. })));
}

#[test]
fn the_log_drops_later_epochs_and_a_torn_line() {
    let (_folder, path) = folder();
    let mut log = JsonLines::resume(&path, 0).unwrap();
    log.push(&json!({"event": "start", "threads": 2})).unwrap();
    for epoch in 1..=4 {
        log.push(&json!({"epoch": epoch, "train_loss": 0.1}))
            .unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 5);
    fs::write(&path, format!("{text}{{\"epoch\": 5, \"tr")).unwrap();
    let mut log = JsonLines::resume(&path, 2).unwrap();
    log.push(&json!({"epoch": 3})).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\"event\":\"start\",\"threads\":2}\n{\"epoch\":1,\"train_loss\":0.1}\n\
         {\"epoch\":2,\"train_loss\":0.1}\n{\"epoch\":3}\n"
    );
    // A whole line without its end is kept and ended.
    fs::write(&path, "{\"epoch\":1}\n{\"epoch\":2}").unwrap();
    let mut log = JsonLines::resume(&path, 9).unwrap();
    log.push(&json!({"epoch": 3})).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\"epoch\":1}\n{\"epoch\":2}\n{\"epoch\":3}\n"
    );
    fs::write(&path, "{\"epoch\":1}\nbroken\n{\"epoch\":2}\n").unwrap();
    let error = JsonLines::resume(&path, 9).unwrap_err();
    assert!(matches!(error, Error::History { line: 2, .. }), "{error}");
}
