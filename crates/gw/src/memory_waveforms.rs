//! Waveforms in memory and settings for tests.

use std::sync::Arc;

use dunnart_random::{Key, Purpose};

use crate::pipeline::{Basis, Grid};
use crate::{NoiseSpectra, Result, SourceSettings, WaveformSource, Waveforms};

/// Waveforms in memory.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) grid: Grid,
    pub(crate) names: Vec<String>,
    pub(crate) parameters: Vec<Vec<f32>>,
    pub(crate) plus: Vec<[f32; 2]>,
    pub(crate) cross: Vec<[f32; 2]>,
    pub(crate) v: Option<(Vec<[f32; 2]>, usize)>,
}

impl Waveforms for Memory {
    fn rows(&self) -> usize {
        self.parameters[0].len()
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    fn basis(&self) -> Result<Option<Basis>> {
        Ok(self.v.as_ref().map(|(v, size)| {
            Basis::new(
                &v[self.grid.first() * size..],
                (self.grid.kept(), *size),
                *size,
                None,
            )
            .unwrap()
        }))
    }

    fn parameter_names(&self) -> &[String] {
        &self.names
    }

    fn parameter(&self, place: usize) -> &[f32] {
        &self.parameters[place]
    }

    fn read(&self, rows: &[u64], plus: &mut [[f32; 2]], cross: &mut [[f32; 2]]) -> Result<()> {
        let width = self.plus.len() / self.rows();
        for (i, &row) in rows.iter().enumerate() {
            let (from, to) = (row as usize * width, i * width);
            plus[to..to + width].copy_from_slice(&self.plus[from..from + width]);
            cross[to..to + width].copy_from_slice(&self.cross[from..from + width]);
        }
        Ok(())
    }
}

fn pairs(index: u64, count: usize, factor: f32) -> Vec<[f32; 2]> {
    let mut values = vec![0.0; 2 * count];
    let mut stream = Key::new(1, Purpose::Benchmark).stream(index);
    stream.fill_normal_f32(&mut values);
    values
        .as_chunks()
        .0
        .iter()
        .map(|pair: &[f32; 2]| pair.map(|x| x * factor))
        .collect()
}

pub(crate) fn memory(size: Option<usize>) -> Memory {
    let (rows, bins) = (150, 400);
    let width = size.unwrap_or(bins);
    let mut masses = vec![0.0; rows];
    Key::new(1, Purpose::Benchmark)
        .stream(9)
        .fill_normal_f32(&mut masses);
    Memory {
        grid: Grid::uniform(0.25, bins, 80).unwrap(),
        names: ["chirp_mass", "luminosity_distance", "geocent_time"]
            .map(String::from)
            .to_vec(),
        parameters: vec![
            masses.iter().map(|m| 30.0 + 5.0 * m).collect(),
            vec![100.0; rows],
            vec![0.0; rows],
        ],
        plus: pairs(1, rows * width, 1e-22),
        cross: pairs(2, rows * width, 1e-22),
        v: size.map(|size| (pairs(3, bins * size, 0.05), size)),
    }
}

pub(crate) fn settings(detectors: &[&str]) -> SourceSettings {
    SourceSettings {
        detectors: detectors.iter().map(|&name| name.into()).collect(),
        reference_time: 1_126_259_462.391,
        inference_parameters: ["ra", "chirp_mass", "geocent_time", "luminosity_distance"]
            .map(String::from)
            .to_vec(),
        ..SourceSettings::default()
    }
}

pub(crate) fn asds(detector: usize) -> Vec<f32> {
    let numbers = pairs(20 + detector as u64, 400 * (3 + detector), 0.3);
    numbers.iter().map(|pair| 1e-23 * pair[0].exp()).collect()
}

pub(crate) fn spectra(detectors: &[String], grid: &Grid) -> NoiseSpectra {
    let mut spectra = NoiseSpectra::new(grid);
    for (i, name) in detectors.iter().enumerate() {
        spectra.push(name, &asds(i), grid).unwrap();
    }
    spectra
}

pub(crate) fn source(
    memory: &Memory,
    settings: &SourceSettings,
    threads: usize,
) -> Result<WaveformSource> {
    let spectra = spectra(&settings.detectors, &memory.grid);
    WaveformSource::new(Arc::new(memory.clone()), spectra, settings, None, threads)
}
