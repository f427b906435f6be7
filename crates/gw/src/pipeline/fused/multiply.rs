//! Complex coefficients times basis: a few rows and one block at a time, sums in registers.
//!
//! A library's matrix product would pack the basis again for every call, and may sum in another order
//! for another number of rows; here a row's result never depends on the rows beside it.

use dunnart_elementwise::{Kernel, Level, Real, dispatch};

use super::{BLOCK, Tile};

/// Bins of a tile: two of the widest vectors.
pub(super) const LANES: usize = 32;
/// Rows multiplied together: with two vectors of real and two of imaginary sums each, 24 of 32 registers.
pub(super) const ROWS: usize = 6;

/// `re + i im = sum_k coefficients_k basis_k` for the rows of a group and the bins of a block.
///
/// # Shapes
/// `coefficients` is `[size][ROWS]`, `basis` `[tiles][size][2][LANES]`.
pub(super) fn multiply(
    coefficients: &[[f32; 2]],
    basis: &[f32],
    size: usize,
    re: &mut Tile,
    im: &mut Tile,
) {
    debug_assert!(basis.len() <= BLOCK * size * 2 && coefficients.len() == size * ROWS);
    let product = Product {
        coefficients,
        basis,
        size,
        re,
        im,
    };
    // Narrower machines have half of the registers of half of the width.
    if Level::detect() == Level::Avx512 {
        dispatch(Wide(product));
    } else {
        dispatch(Narrow(product));
    }
}

struct Product<'a> {
    coefficients: &'a [[f32; 2]],
    basis: &'a [f32],
    size: usize,
    re: &'a mut Tile,
    im: &'a mut Tile,
}

struct Wide<'a>(Product<'a>);

impl Kernel for Wide<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.0.run::<FMA, ROWS, LANES>();
    }
}

struct Narrow<'a>(Product<'a>);

impl Kernel for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.0.run::<FMA, 3, 16>();
    }
}

impl Product<'_> {
    #[inline(always)]
    fn run<const FMA: bool, const R: usize, const L: usize>(self) {
        let tiles = self.basis.chunks_exact(self.size * 2 * LANES);
        for (tile, basis) in tiles.enumerate() {
            for row in (0..ROWS).step_by(R) {
                for lane in (0..LANES).step_by(L) {
                    let (re, im) = sums::<FMA, R, L>(self.coefficients, basis, row, lane);
                    let start = tile * LANES + lane;
                    for r in 0..R {
                        self.re[row + r][start..start + L].copy_from_slice(&re[r]);
                        self.im[row + r][start..start + L].copy_from_slice(&im[r]);
                    }
                }
            }
        }
    }
}

/// Real and imaginary sums for `R` rows from `row` on and `L` bins from `lane` on.
#[inline(always)]
fn sums<const FMA: bool, const R: usize, const L: usize>(
    coefficients: &[[f32; 2]],
    basis: &[f32],
    row: usize,
    lane: usize,
) -> ([[f32; L]; R], [[f32; L]; R]) {
    let (mut re, mut im) = ([[0.0f32; L]; R], [[0.0f32; L]; R]);
    let steps = coefficients.chunks_exact(ROWS);
    for (pairs, numbers) in steps.zip(basis.chunks_exact(2 * LANES)) {
        let pairs = &pairs[row..row + R];
        let (numbers_re, numbers_im) = numbers.split_at(LANES);
        let (u, v) = (&numbers_re[lane..lane + L], &numbers_im[lane..lane + L]);
        for r in 0..R {
            let [a, b] = pairs[r];
            for l in 0..L {
                re[r][l] = a.fused::<FMA>(u[l], re[r][l]);
                im[r][l] = a.fused::<FMA>(v[l], im[r][l]);
            }
            for l in 0..L {
                re[r][l] = (-b).fused::<FMA>(v[l], re[r][l]);
                im[r][l] = b.fused::<FMA>(u[l], im[r][l]);
            }
        }
    }
    (re, im)
}
