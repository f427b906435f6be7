use super::*;
use crate::Moments;
use crate::memory_waveforms::{Memory, asds, memory, settings, source, spectra};
use crate::pipeline::{
    CHANNELS, Spectrum, add_noise, apply_time_shift, choose_asd, draw_noise, project, repackage,
    whiten,
};
use serde_json::json;

const DRAW: Draw = Draw {
    seed: 3,
    stage: 0,
    epoch: 1,
};

fn message(memory: &Memory, settings: &SourceSettings) -> String {
    source(memory, settings, 1).err().unwrap().to_string()
}

/// The whole chain in the reference form, stage after stage.
fn by_hand(memory: &Memory, source: &WaveformSource, sample: u64) -> Samples {
    let drawn = source.chain.draw(DRAW, sample, None);
    let detectors = source.chain.detectors().len();
    let grid = &memory.grid;
    let counts: Vec<usize> = (0..detectors).map(|i| 3 + i).collect();
    let choice = choose_asd(DRAW, sample, &counts);
    let width = memory.plus.len() / memory.rows();
    let polarisation = |rows: &[[f32; 2]]| {
        let row = &rows[sample as usize * width..(sample as usize + 1) * width];
        let mut spectrum = Spectrum::zeros(grid.bins());
        for bin in 0..grid.bins() {
            let mut add = |a: f64, b: f64| {
                spectrum.re[bin] += a;
                spectrum.im[bin] += b;
            };
            match &memory.v {
                None => add(f64::from(row[bin][0]), f64::from(row[bin][1])),
                Some((v, size)) => {
                    for (c, v) in row.iter().zip(&v[bin * size..]) {
                        let ([a, b], [x, y]) = (c.map(f64::from), v.map(f64::from));
                        add(a * x + b * y, b * x - a * y);
                    }
                }
            }
        }
        spectrum
    };
    let (plus, cross) = (polarisation(&memory.plus), polarisation(&memory.cross));
    let mut out = Samples::default();
    for (detector, &chosen) in choice.iter().enumerate() {
        let ratio = 100.0 / drawn.source.luminosity_distance;
        let mut strain = project(&plus, &cross, drawn.antennas[detector], ratio);
        apply_time_shift(
            &mut strain,
            &grid.frequencies(),
            drawn.applied_times()[detector],
        );
        let row = &asds(detector)[chosen * grid.bins()..][..grid.bins()];
        let asd: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
        whiten(&mut strain, &asd, grid.noise_std());
        let (mut re, mut im) = (vec![0.0; grid.kept()], vec![0.0; grid.kept()]);
        draw_noise(DRAW, sample, detector, 0, &mut re, &mut im);
        let mut noise = Spectrum::zeros(grid.first());
        noise.re.extend(re.iter().map(|&x| f64::from(x)));
        noise.im.extend(im.iter().map(|&x| f64::from(x)));
        add_noise(&mut strain, &noise);
        let mut rows = vec![0.0; CHANNELS * grid.kept()];
        repackage(&strain, &asd, grid.first(), &mut rows);
        out.observation.extend(rows);
    }
    let chirp_mass = f64::from(memory.parameters[0][sample as usize]);
    let time = drawn
        .shifted
        .as_ref()
        .map_or(drawn.source.geocent_time, |s| s.geocent_time);
    let values = [
        drawn.source.ra,
        chirp_mass,
        time,
        drawn.source.luminosity_distance,
    ];
    for (name, value) in source.inference_parameters().iter().zip(values) {
        out.theta.push(
            source
                .standardization()
                .get(name)
                .unwrap()
                .standardize(value),
        );
    }
    if let Some(shifted) = &drawn.shifted {
        for (name, value) in source.context_parameters().iter().zip(&shifted.context) {
            out.context.push(
                source
                    .standardization()
                    .get(name)
                    .unwrap()
                    .standardize(*value),
            );
        }
    }
    out
}

fn proxies(exact: bool) -> Option<(String, bool)> {
    Some(("Uniform(-0.001, 0.001)".into(), exact))
}

#[test]
fn samples_are_the_chain_stage_after_stage() {
    for (size, detectors, time_shifts) in [
        (Some(30), &["H1", "L1"][..], None),
        (Some(30), &["V1", "L1", "H1"], proxies(true)),
        (None, &["L1", "H1"], proxies(false)),
    ] {
        let memory = memory(size);
        let settings = SourceSettings {
            time_shifts,
            ..settings(detectors)
        };
        let source = source(&memory, &settings, 1).unwrap();
        let mut samples = Samples::default();
        let wanted = [7, 3, 149, 0];
        source.fill(&wanted, DRAW, &mut samples).unwrap();
        let [i, c, f] = source.observation_shape();
        let (d, p) = (
            source.inference_parameters().len(),
            source.context_parameters().len(),
        );
        for (row, &sample) in wanted.iter().enumerate() {
            let expected = by_hand(&memory, &source, sample);
            assert_eq!(samples.theta[row * d..(row + 1) * d], expected.theta);
            assert_eq!(samples.context[row * p..(row + 1) * p], expected.context);
            assert_eq!(expected.observation.len(), i * c * f);
            let strain = &samples.observation[row * i * c * f..(row + 1) * i * c * f];
            let largest = expected
                .observation
                .iter()
                .fold(0.0f32, |m, x| m.max(x.abs()));
            for (a, b) in strain.iter().zip(&expected.observation) {
                assert!((a - b).abs() <= 3e-6 * largest, "{a} {b}");
            }
        }
    }
}

#[test]
fn threads_and_order_do_not_matter() {
    let memory = memory(Some(30));
    let wanted: Vec<u64> = (0..150).rev().collect();
    let mut first = Samples::default();
    let one = source(&memory, &settings(&["H1", "L1"]), 1).unwrap();
    one.fill(&wanted, DRAW, &mut first).unwrap();
    for threads in [2, 3] {
        let many = source(&memory, &settings(&["H1", "L1"]), threads).unwrap();
        let mut other = Samples::default();
        many.fill(&wanted, DRAW, &mut other).unwrap();
        assert_eq!(first, other);
        let size = first.observation.len() / 150;
        many.fill(&wanted[20..21], DRAW, &mut other).unwrap();
        assert_eq!(other.observation, first.observation[20 * size..21 * size]);
        many.fill(&[], DRAW, &mut other).unwrap();
        assert_eq!(other, Samples::default());
    }
    let mut later = Samples::default();
    one.fill(&wanted, Draw { epoch: 2, ..DRAW }, &mut later)
        .unwrap();
    assert!(
        later
            .observation
            .iter()
            .zip(&first.observation)
            .filter(|(a, b)| a == b)
            .count()
            < 40_000
    );
    assert_ne!(later.theta, first.theta);
}

#[test]
fn strain_without_noise_is_at_one_distance() {
    let memory = memory(Some(30));
    let mut settings = settings(&["H1", "L1"]);
    let plain = source(&memory, &settings, 2).unwrap();
    let (samples, kept) = ([4, 90, 17], memory.grid.kept());
    let mut strain = vec![f32::NAN; 3 * 2 * 2 * kept];
    plain.noise_free(&samples, DRAW, &mut strain).unwrap();
    assert!(plain.noise_free(&samples, DRAW, &mut strain[1..]).is_err());
    settings.zero_noise = true;
    settings.extrinsic_prior = json!({"luminosity_distance": 100.0})
        .as_object()
        .unwrap()
        .clone();
    settings.inference_parameters.pop();
    let fixed = source(&memory, &settings, 1).unwrap();
    let mut full = Samples::default();
    fixed.fill(&samples, DRAW, &mut full).unwrap();
    for (strain, full) in strain
        .chunks(2 * kept)
        .zip(full.observation.chunks(3 * kept))
    {
        assert_eq!(strain, &full[..2 * kept]);
    }
}

#[test]
fn statistics_of_every_kind_of_parameter() {
    let memory = memory(None);
    let mut settings = SourceSettings {
        time_shifts: proxies(true),
        ..settings(&["H1", "L1", "V1"])
    };
    settings.inference_parameters.push("H1_time".into());
    let source = source(&memory, &settings, 1).unwrap();
    assert_eq!(
        source.context_parameters(),
        ["L1_time_proxy_relative", "V1_time_proxy_relative"]
    );
    let moments = |name: &str| source.standardization().get(name).unwrap();
    assert_eq!(
        moments("chirp_mass"),
        Moments::of_column(&memory.parameters[0])
    );
    // The prior's, although what is inferred is the time after the first proxy.
    assert_eq!(moments("geocent_time").mean, 0.0);
    assert!((moments("geocent_time").std - 0.2 / 12f64.sqrt()).abs() < 1e-15);
    // What is left of a detector's time is the kernel, uniform over 2 ms.
    assert!(moments("H1_time").mean.abs() < 2e-4);
    assert!((moments("H1_time").std - 2e-3 / 12f64.sqrt()).abs() < 1e-4);
    // Differences of arrival times are at most the light's travel time, 10 and 27 ms.
    assert!(moments("L1_time_proxy_relative").std < 0.0101);
    assert!((0.008..0.0274).contains(&moments("V1_time_proxy_relative").std));
    let names: Vec<&str> = source
        .standardization()
        .names()
        .iter()
        .map(String::as_str)
        .collect();
    assert_eq!(
        names[..5],
        [
            "ra",
            "chirp_mass",
            "geocent_time",
            "luminosity_distance",
            "H1_time"
        ]
    );
    // Given statistics are taken as they are.
    let spectra = spectra(&settings.detectors, &memory.grid);
    let given = source.standardization().clone();
    let again = WaveformSource::new(Arc::new(memory), spectra, &settings, Some(given.clone()), 1);
    assert_eq!(again.unwrap().standardization(), &given);
}

#[test]
fn wrong_settings_and_data_are_named() {
    let good = settings(&["H1", "L1"]);
    let memory = memory(Some(30));
    let infer = |name: &str| SourceSettings {
        inference_parameters: vec![name.into()],
        ..good.clone()
    };
    let text = message(&memory, &infer("mass_1"));
    assert!(
        text.contains("unknown parameter `mass_1`") && text.contains("H1_time, L1_time"),
        "{text}"
    );
    assert!(message(&memory, &infer("H1_time_proxy")).contains("unknown parameter"));
    assert!(message(&memory, &infer("V1_time")).contains("unknown parameter"));
    let fixed = SourceSettings {
        extrinsic_prior: json!({"ra": 1.0}).as_object().unwrap().clone(),
        ..good.clone()
    };
    assert!(message(&memory, &fixed).contains("`ra`: its standard deviation is 0"));
    assert!(
        message(
            &memory,
            &SourceSettings {
                detectors: vec![],
                ..good.clone()
            }
        )
        .contains("detectors")
    );
    assert!(message(&memory, &settings(&["H1", "H1"])).contains("H1 twice"));
    assert!(message(&memory, &settings(&["H1", "K1"])).contains("unknown detector `K1`"));
    let empty = SourceSettings {
        inference_parameters: vec![],
        ..good.clone()
    };
    assert!(message(&memory, &empty).contains("inference_parameters"));

    let mut late = memory.clone();
    late.parameters[2][5] = 0.1;
    assert!(message(&late, &good).contains("geocent_time of the waveforms: expected 0"));
    let mut far = memory.clone();
    far.parameters[1][5] = 200.0;
    assert!(message(&far, &good).contains("`luminosity_distance` of the waveforms"));
    far.parameters[1] = vec![-1.0; 150];
    assert!(message(&far, &good).contains("positive distances"));

    let other = spectra(&["H1".into(), "V1".into()], &memory.grid);
    let error = WaveformSource::new(Arc::new(memory.clone()), other.clone(), &good, None, 1);
    assert!(
        error
            .err()
            .unwrap()
            .to_string()
            .contains("expected H1, L1 over 320 bins")
    );
    let mut source = source(&memory, &good, 1).unwrap();
    assert!(source.set_spectra(other).is_err());
    let mut out = Samples::default();
    let error = source
        .fill(&[0, 150], DRAW, &mut out)
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected less than 150, got 150"), "{error}");

    let mut bad = memory.clone();
    bad.cross[30 * 12 + 29][1] = f32::NAN;
    let source = crate::memory_waveforms::source(&bad, &good, 2).unwrap();
    let error = source
        .fill(&[11, 12], DRAW, &mut out)
        .unwrap_err()
        .to_string();
    assert!(error.contains("waveform 12"), "{error}");
    source.fill(&[11, 13], DRAW, &mut out).unwrap();
}

#[test]
fn a_new_stage_brings_new_spectra() {
    let memory = memory(Some(30));
    let good = settings(&["H1", "L1"]);
    let mut source = source(&memory, &good, 1).unwrap();
    let (mut before, mut after) = (Samples::default(), Samples::default());
    source.fill(&[1, 2], DRAW, &mut before).unwrap();
    let mut flat = NoiseSpectra::new(&memory.grid);
    for name in ["H1", "L1"] {
        flat.push(name, &[1e-23; 400], &memory.grid).unwrap();
    }
    source.set_spectra(flat).unwrap();
    source.fill(&[1, 2], DRAW, &mut after).unwrap();
    assert_eq!(before.theta, after.theta);
    let kept = memory.grid.kept();
    assert!(
        after.observation[2 * kept..3 * kept]
            .iter()
            .all(|&x| (x - 1.0).abs() < 1e-6)
    );
    assert_ne!(before.observation[..kept], after.observation[..kept]);
}
