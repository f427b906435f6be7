//! The loss curves of a run as an SVG file.

use std::fmt::Write;

use anyhow::Result;
use dunnart_train::RunFolder;
use dunnart_train::history::{History, HistoryRow};

use super::setup::write_text;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const MARGIN: f64 = 60.0;

/// Writes `loss.svg` from the folder's history.
pub(super) fn write(folder: &RunFolder) -> Result<()> {
    let history = History::read(&folder.history())?;
    write_text(&folder.path().join("loss.svg"), &svg(history.rows()))
}

fn svg(rows: &[HistoryRow]) -> String {
    let losses = || rows.iter().flat_map(|row| [row.train_loss, row.test_loss]);
    let finite = || losses().filter(|loss| loss.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = if low < high {
        (low, high)
    } else {
        (low - 0.5, low + 0.5)
    };
    let last = rows.last().map_or(1, |row| row.epoch).max(2) as f64;
    let x = |epoch: f64| MARGIN + (epoch - 1.0) / (last - 1.0) * (WIDTH - 2.0 * MARGIN);
    let y = |loss: f64| HEIGHT - MARGIN - (loss - low) / (high - low) * (HEIGHT - 2.0 * MARGIN);
    let curve = |value: &dyn Fn(&HistoryRow) -> f64| {
        let mut points = String::new();
        for row in rows.iter().filter(|row| value(row).is_finite()) {
            // Writing to a string cannot fail.
            let _ = write!(points, "{:.1},{:.1} ", x(row.epoch as f64), y(value(row)));
        }
        points
    };
    let (left, right, top, bottom) = (MARGIN, WIDTH - MARGIN, MARGIN, HEIGHT - MARGIN);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">
<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>
<path d="M {left} {top} V {bottom} H {right}" fill="none" stroke="black"/>
<text x="{left}" y="{}" text-anchor="middle">1</text>
<text x="{right}" y="{}" text-anchor="middle">{last}</text>
<text x="{}" y="{}" text-anchor="middle">epoch</text>
<text x="{}" y="{bottom}" text-anchor="end">{low:.3}</text>
<text x="{}" y="{top}" text-anchor="end">{high:.3}</text>
<text x="{left}" y="{}">loss, -mean(log q)</text>
<polyline points="{}" fill="none" stroke="#1f77b4" stroke-width="1.5"/>
<polyline points="{}" fill="none" stroke="#d62728" stroke-width="1.5"/>
<text x="{right}" y="{}" text-anchor="end" fill="#1f77b4">training</text>
<text x="{right}" y="{}" text-anchor="end" fill="#d62728">test</text>
</svg>
"##,
        bottom + 18.0,
        bottom + 18.0,
        WIDTH / 2.0,
        bottom + 36.0,
        left - 6.0,
        left - 6.0,
        top - 14.0,
        curve(&|row| row.train_loss),
        curve(&|row| row.test_loss),
        top + 4.0,
        top + 22.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_a_point_for_every_finite_loss() {
        let row = |epoch, test_loss| HistoryRow {
            epoch,
            train_loss: 3.0 / epoch as f64,
            test_loss,
            learning_rates: vec![1e-3],
        };
        let text = svg(&[row(1, 3.0), row(2, f64::NAN), row(3, 1.5)]);
        let points: Vec<usize> = text
            .lines()
            .filter(|line| line.starts_with("<polyline"))
            .map(|line| line.matches(',').count())
            .collect();
        assert_eq!(points, [3, 2]);
        assert!(!text.contains("NaN"), "{text}");
        assert!(!svg(&[]).contains("NaN"));
    }
}
