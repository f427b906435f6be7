//! `sample`: reproducible, in physical units, with the density it says, and never without end.

use std::path::Path;

use dunnart_data::ArrayFile;
use dunnart_tests::{Outcome, dunnart};

use crate::model::Bench;

/// Runs `sample` on the bench's checkpoint, and on its observations unless others are given.
fn sample(bench: &Bench, out: &Path, options: &[&str]) -> Outcome {
    let path = |path: &Path| path.to_str().unwrap().to_string();
    let mut arguments = vec![
        "sample".into(),
        "--checkpoint".into(),
        path(&bench.checkpoint),
        "--out".into(),
        path(out),
    ];
    if !options.contains(&"--observations") {
        arguments.extend(["--observations".into(), path(&bench.observations)]);
    }
    arguments.extend(options.iter().map(|o| o.to_string()));
    dunnart(arguments)
}

fn read(path: &Path, name: &str) -> Vec<f64> {
    ArrayFile::open(path)
        .unwrap()
        .read(name)
        .unwrap()
        .values
        .to_vec()
}

#[test]
fn case_62_samples_depend_on_the_seed_alone() {
    let bench = Bench::new(None);
    let bytes = |name: &str, options: &[&str]| {
        let out = bench.path(name);
        let all = [&["--num-samples", "3000"], options].concat();
        sample(&bench, &out, &all).good();
        std::fs::read(out).unwrap()
    };
    let first = bytes("a.safetensors", &[]);
    for options in [
        &["--chunk", "1000"][..],
        &["--chunk", "50000", "--threads", "8"],
        &["--chunk", "7", "--threads", "1"],
        &["--chunk", "1024", "--threads", "2", "--seed", "0"],
    ] {
        assert!(bytes("b.safetensors", options) == first, "{options:?}");
    }
    assert!(bytes("b.safetensors", &["--seed", "1"]) != first);
    // Fewer samples are the first of more.
    let few = bench.path("few.npz");
    sample(&bench, &few, &["--num-samples", "10"]).good();
    let (few, many) = (
        read(&few, "samples"),
        read(&bench.path("a.safetensors"), "samples"),
    );
    assert_eq!(few[..20], many[..20]);
    assert_eq!(few[20..], many[6000..6020]);
}

#[test]
fn case_63_the_density_is_that_of_physical_parameters() {
    let bench = Bench::new(None);
    let out = bench.path("s.npz");
    sample(&bench, &out, &["--num-samples", "50000"]).good();
    let (samples, log_prob) = (read(&out, "samples"), read(&out, "log_prob"));
    for observation in 0..2 {
        let theta = &samples[observation * 100_000..][..100_000];
        let expected = bench.log_prob(observation, theta);
        let drawn = &log_prob[observation * 50_000..][..50_000];
        let mut differences: Vec<f64> = drawn
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs())
            .collect();
        differences.sort_by(f64::total_cmp);
        assert!(differences[25_000] < 1e-5, "median {}", differences[25_000]);
        assert!(
            differences[49_950] < 1e-3,
            "99.9 per cent {}",
            differences[49_950]
        );
        assert!(differences[49_999] < 0.1, "largest {}", differences[49_999]);
    }
    assert_ne!(samples[..20], samples[100_000..100_020]);
    let names = ArrayFile::open(&out)
        .unwrap()
        .read_names("names")
        .unwrap()
        .unwrap();
    assert_eq!(names, ["mass", "distance"]);
}

#[test]
fn float64_agrees_with_itself_to_the_last_digits() {
    let bench = Bench::new(None);
    let out = bench.path("s.npz");
    sample(&bench, &out, &["--num-samples", "1000", "--float64"]).good();
    let (samples, log_prob) = (read(&out, "samples"), read(&out, "log_prob"));
    let expected = bench.log_prob(1, &samples[2000..]);
    for (found, expected) in log_prob[1000..].iter().zip(expected) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
}

#[test]
fn mass_outside_is_reported_for_each_observation() {
    let bench = Bench::new(Some((9.5, 11.0)));
    let out = bench.path("s.safetensors");
    let text = sample(&bench, &out, &["--num-samples", "2000"]).good();
    let outside = read(&out, "mass_outside");
    let samples = read(&out, "samples");
    for (observation, share) in outside.iter().enumerate() {
        let rows = samples[observation * 4000..][..4000].chunks_exact(2);
        let count = rows.filter(|row| !(9.5..=11.0).contains(&row[0])).count();
        assert_eq!(*share, count as f64 / 2000.0);
        assert!(*share > 0.05 && *share < 0.95, "{share}");
        assert!(text.contains(&format!(
            "observation {observation}: mass outside {share:.6}"
        )));
    }
    // Without being asked, nothing is cut and no density is changed.
    assert!(
        !ArrayFile::open(&out)
            .unwrap()
            .contains("log_prob_correction")
    );
}

#[test]
fn case_60_rejection_corrects_each_observation_by_its_own_acceptance() {
    let bounds = (9.5, 11.0);
    let bench = Bench::new(Some(bounds));
    let (out, other) = (bench.path("cut.npz"), bench.path("again.npz"));
    let options = ["--num-samples", "20000", "--reject-outside"];
    sample(&bench, &out, &options).good();
    sample(
        &bench,
        &other,
        &[&options[..], &["--chunk", "77", "--threads", "3"]].concat(),
    )
    .good();
    assert!(std::fs::read(&out).unwrap() == std::fs::read(&other).unwrap());
    let (samples, log_prob) = (read(&out, "samples"), read(&out, "log_prob"));
    let correction = read(&out, "log_prob_correction");
    let error = read(&out, "log_prob_correction_standard_error");
    let acceptance = correction.iter().map(|c| (-c).exp()).collect::<Vec<_>>();
    assert!(
        (acceptance[0] - acceptance[1]).abs() > 0.02,
        "{acceptance:?}"
    );
    for observation in 0..2 {
        let theta = &samples[observation * 40_000..][..40_000];
        assert!(
            theta
                .chunks_exact(2)
                .all(|row| (bounds.0..=bounds.1).contains(&row[0]))
        );
        let plain = bench.log_prob(observation, theta);
        for (cut, plain) in log_prob[observation * 20_000..]
            .iter()
            .zip(&plain)
            .take(500)
        {
            assert!(
                (cut - plain - correction[observation]).abs() < 1e-2,
                "{cut} {plain}"
            );
        }
        // The mass inside by quadrature (midpoints), and with it the integral of the cut density.
        let (columns, rows) = (300, 600);
        let (width, height) = ((bounds.1 - bounds.0) / columns as f64, 8.0 / rows as f64);
        let grid: Vec<f64> = (0..columns * rows)
            .flat_map(|i| {
                let x = bounds.0 + ((i % columns) as f64 + 0.5) * width;
                [x, -7.0 + ((i / columns) as f64 + 0.5) * height]
            })
            .collect();
        let density = bench.log_prob(observation, &grid);
        let inside = density.iter().map(|l| l.exp()).sum::<f64>() * width * height;
        let sigmas = (correction[observation] + inside.ln()) / error[observation];
        assert!(
            sigmas.abs() < 3.5,
            "{sigmas} sigma, mass {inside}, {acceptance:?}"
        );
        let integral = inside * correction[observation].exp();
        assert!((integral - 1.0).abs() < 0.02, "{integral}");
    }
}

#[test]
fn case_59_rejection_gives_up_within_its_budget() {
    let bench = Bench::new(Some((1e6, 1e6 + 1.0)));
    // A hundred observations, none of whose posteriors reaches the bounds.
    let many = bench.path("many.csv");
    let rows: String = (0..100)
        .map(|i| format!("{},{}\n", 50 + i % 7, 50 - i % 5))
        .collect();
    std::fs::write(&many, rows).unwrap();
    let out = bench.path("none.npz");
    let many = [
        "--observations",
        many.to_str().unwrap(),
        "--num-samples",
        "100",
    ];
    let hints = ["100 of 100 observations", "observations 0, 1, 2"];
    let budget = ["--reject-outside", "--max-draws", "1000"];
    sample(&bench, &out, &[&many[..], &budget[..]].concat()).refused(&hints);
    let options = ["--num-samples", "100", "--reject-outside"];
    let hints = ["2 of 2 observations", "hint: raise --max-draws"];
    sample(&bench, &out, &options).refused(&hints);
    assert!(!out.exists());
    let partial = [&options[..], &["--partial", "--max-draws", "500"]].concat();
    let outcome = sample(&bench, &out, &partial);
    assert!(
        outcome.err.contains("missing rows are NaN"),
        "{}",
        outcome.err
    );
    assert!(outcome.good().contains("0 of 500 draws accepted"));
    assert_eq!(read(&out, "samples").len(), 400);
    assert!(read(&out, "samples").iter().all(|v| v.is_nan()));
    assert_eq!(read(&out, "mass_outside"), [1.0, 1.0]);
}

#[test]
fn an_observation_that_is_found_survives_one_that_is_not() {
    // Bounds that only a part of the draws meets, and a budget that is met by chance.
    let bench = Bench::new(Some((9.5, 11.0)));
    let out = bench.path("part.npz");
    let options = [
        "--num-samples",
        "100",
        "--reject-outside",
        "--partial",
        "--max-draws",
        "120",
    ];
    let outcome = sample(&bench, &out, &options);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let (samples, log_prob) = (read(&out, "samples"), read(&out, "log_prob"));
    for (row, log_prob) in samples.chunks_exact(2).zip(&log_prob) {
        let missing = log_prob.is_nan();
        assert_eq!(row.iter().all(|v| v.is_nan()), missing);
        assert!(missing || (9.5..=11.0).contains(&row[0]));
    }
    assert!(log_prob.iter().any(|v| v.is_nan()) && log_prob.iter().any(|v| v.is_finite()));
}

#[test]
fn a_table_of_samples() {
    let bench = Bench::new(Some((9.0, 12.0)));
    let out = bench.path("s.csv");
    sample(&bench, &out, &["--num-samples", "3"]).good();
    let text = std::fs::read_to_string(&out).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("observation,mass,distance,log_prob,mass_outside")
    );
    assert_eq!(lines.count(), 6);
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    let bench = Bench::new(None);
    let out = bench.path("s.npz");
    let refused = |name: &str, content: &str, texts: &[&str]| {
        let path = bench.path(name);
        std::fs::write(&path, content).unwrap();
        let path = path.to_str().unwrap();
        let all = [&[name][..], texts].concat();
        sample(
            &bench,
            &out,
            &["--num-samples", "5", "--observations", path],
        )
        .refused(&all);
        assert!(!out.exists());
    };
    refused("wide.csv", "1,2,3\n", &["[observations, 2]", "3"]);
    refused("holes.csv", "1,2\n3,nan\n", &["not finite", "row 1"]);
    refused("words.csv", "a,b\n1,two\n", &[]);
    refused("empty.csv", "", &[]);
    refused("notes.txt", "1,2\n", &["unknown file format"]);
    refused("fake.npz", "PK no archive", &[]);
    refused("fake.safetensors", "12345678901234567890", &[]);
    let absent = bench.path("absent.csv");
    let absent = absent.to_str().unwrap();
    sample(
        &bench,
        &out,
        &["--num-samples", "5", "--observations", absent],
    )
    .refused(&["error: ", "absent.csv", "No such file"])
    .once("No such file")
    .once("absent.csv");
    let count = ["--num-samples", "5"];
    sample(&bench, &bench.path("s.txt"), &count).refused(&["s.txt", ".npz"]);
    sample(&bench, &bench.path("no folder/s.npz"), &count).refused(&["there is no folder"]);
    sample(&bench, &bench.checkpoint, &count).refused(&["one of the inputs"]);
    sample(&bench, &out, &["--num-samples", "5", "--reject-outside"]).refused(&["no bounds"]);
    let mut bytes = std::fs::read(&bench.checkpoint).unwrap();
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&bench.checkpoint, bytes).unwrap();
    sample(&bench, &out, &count)
        .refused(&["a model.safetensors", "truncated"])
        .once("truncated");
    std::fs::remove_file(&bench.checkpoint).unwrap();
    sample(&bench, &out, &count)
        .refused(&["a model.safetensors", "cannot read"])
        .once("cannot read")
        .once("No such file");
    assert!(!out.exists());
}
