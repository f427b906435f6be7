//! A subspace that passes over the data turn towards the leading singular vectors.

use dunnart_random::{Key, Purpose};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par, c64};

use super::ReducedBasisSettings;
use crate::{Error, Result};

/// Vectors beyond those that are kept: at least, and as a share of the size.
const SPARE: (usize, usize) = (20, 10);
/// Passes that multiply, at least and at most.
const PASSES: (usize, usize) = (3, 8);
/// The subspace has settled when a pass gains less than this share of what it misses.
const SETTLED: f64 = 1e-3;

/// An orthonormal basis Q of the subspace, and what a pass adds up.
pub(super) struct Subspace {
    /// `[F, l]`.
    q: Mat<c64>,
    /// Sum of `A^H A Q` over the blocks so far.
    z: Mat<c64>,
    /// Upper triangle of the QR decomposition of `A Q` over the blocks so far.
    r: Mat<c64>,
    /// Squared norms of `A Q` and of `A`.
    captured: f64,
    total: f64,
    missed_before: f64,
    passes: usize,
    settled: bool,
}

impl Subspace {
    /// A random one, from a key of its own for each detector.
    pub(super) fn new(settings: &ReducedBasisSettings, bins: usize, detector: usize) -> Self {
        let spare = SPARE.0.max(settings.size / SPARE.1);
        let width = (settings.size + spare)
            .min(bins)
            .min(settings.training_samples);
        let key = Key::new(settings.seed, Purpose::ReducedBasis);
        let mut stream = key.stream(detector as u64);
        let start = Mat::from_fn(bins, width, |_, _| {
            c64::new(stream.normal(), stream.normal())
        });
        Self {
            q: start.qr().compute_thin_Q(),
            z: Mat::zeros(bins, width),
            r: Mat::zeros(0, width),
            captured: 0.0,
            total: 0.0,
            missed_before: f64::INFINITY,
            passes: 0,
            settled: false,
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Adds a block A of rows to `A^H A Q`.
    pub(super) fn multiply(&mut self, rows: MatRef<'_, c64>) {
        let product = rows * &self.q;
        let one = c64::new(1.0, 0.0);
        matmul(
            &mut self.z,
            Accum::Add,
            rows.adjoint(),
            &product,
            one,
            Par::Seq,
        );
        self.captured += product.squared_norm_l2();
        self.total += rows.squared_norm_l2();
    }

    /// Ends a pass: Q becomes an orthonormal basis of `A^H A Q`.
    ///
    /// A subspace that has settled stays as it is while others are not done.
    pub(super) fn turn(&mut self) {
        if !self.settled {
            self.q = self.z.qr().compute_thin_Q();
            self.passes += 1;
            // Rounding can bring the difference below zero.
            let missed = (self.total - self.captured).max(0.0);
            let gained = self.missed_before - missed;
            self.settled = self.passes >= PASSES.1
                || (self.passes >= PASSES.0 && gained <= SETTLED * missed.max(1e-12 * self.total));
            self.missed_before = missed;
        }
        self.z.fill(c64::new(0.0, 0.0));
        (self.captured, self.total) = (0.0, 0.0);
    }

    /// Adds a block A of rows to the triangle R of `A Q`.
    pub(super) fn reduce(&mut self, rows: MatRef<'_, c64>) {
        let product = rows * &self.q;
        let (above, width) = (self.r.nrows(), self.q.ncols());
        let stacked = Mat::from_fn(above + product.nrows(), width, |i, j| {
            if i < above {
                self.r[(i, j)]
            } else {
                product[(i - above, j)]
            }
        });
        self.r = stacked.qr().thin_R().to_owned();
    }

    /// The leading right singular vectors `[F, size]` and singular values, after all rows went through
    /// [`Subspace::reduce`].
    ///
    /// # Errors
    /// [`Error::Data`] when the decomposition does not converge.
    pub(super) fn singular_vectors(&self, size: usize) -> Result<(Mat<c64>, Vec<f64>)> {
        let svd = self.r.thin_svd().map_err(|error| Error::Data {
            what: "singular values of the reduced basis".into(),
            expected: "convergence".into(),
            actual: format!("{error:?}"),
        })?;
        let v = &self.q * svd.V().get(.., ..size);
        let values = svd.S().column_vector();
        Ok((v, (0..size).map(|k| values[k].re).collect()))
    }
}
