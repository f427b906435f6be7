//! Time shift, whitening, noise: what is done to a block of strain while it is in cache.

use dunnart_elementwise::{Kernel, Real, dispatch};

use super::BLOCK;
use super::phases::Phase;
use crate::Antenna;

/// Real and imaginary parts over a block.
pub(super) type Parts<'a> = (&'a [f32; BLOCK], &'a [f32; BLOCK]);

/// A block of strain before the time shift.
#[derive(Clone, Copy)]
pub(super) enum Strain<'a> {
    /// A detector's.
    Projected(Parts<'a>),
    /// Two polarisations and the antenna pattern that makes a detector's strain of them.
    Polarisations(Parts<'a>, Parts<'a>, Antenna),
}

/// One block of one detector: `output = strain phase inverse scale + noise`.
///
/// # Shapes
/// All slices have the bins of the block.
pub(super) struct Finish<'a, P> {
    pub(super) strain: Strain<'a>,
    pub(super) phases: P,
    pub(super) inverse: &'a [f32],
    pub(super) scale: &'a [f32],
    pub(super) noise: (&'a [f32], &'a [f32]),
    pub(super) output: (&'a mut [f32], &'a mut [f32]),
}

impl<'a, P: Iterator<Item = Phase<'a>>> Finish<'a, P> {
    pub(super) fn run(self) {
        dispatch(Body(self));
    }
}

struct Body<'a, P>(Finish<'a, P>);

impl<'a, P: Iterator<Item = Phase<'a>>> Kernel for Body<'a, P> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Finish {
            strain,
            phases,
            inverse,
            scale,
            noise,
            output,
        } = self.0;
        let (mut re, mut im) = ([0.0; BLOCK], [0.0; BLOCK]);
        let (re, im) = match strain {
            Strain::Projected(parts) => parts,
            Strain::Polarisations(plus, cross, antenna) => {
                let (a, b) = (antenna.plus as f32, antenna.cross as f32);
                for j in 0..BLOCK {
                    re[j] = a.fused::<FMA>(plus.0[j], b * cross.0[j]);
                    im[j] = a.fused::<FMA>(plus.1[j], b * cross.1[j]);
                }
                (&re, &im)
            }
        };
        for phase in phases {
            let bins = phase.re.len();
            let range = phase.offset..phase.offset + bins;
            let (phase_re, phase_im) = (phase.re, &phase.im[..bins]);
            let [a, b] = phase.first;
            // Equal lengths that the compiler sees keep bounds checks out of the loop.
            let (re, im) = (&re[range.clone()][..bins], &im[range.clone()][..bins]);
            let inverse = &inverse[range.clone()][..bins];
            let scale = &scale[range.clone()][..bins];
            let noise_re = &noise.0[range.clone()][..bins];
            let noise_im = &noise.1[range.clone()][..bins];
            let out_re = &mut output.0[range.clone()][..bins];
            let out_im = &mut output.1[range][..bins];
            for j in 0..bins {
                let cosine = a.fused::<FMA>(phase_re[j], -(b * phase_im[j]));
                let sine = a.fused::<FMA>(phase_im[j], b * phase_re[j]);
                let level = inverse[j] * scale[j];
                let shifted_re = re[j].fused::<FMA>(cosine, -(im[j] * sine));
                let shifted_im = re[j].fused::<FMA>(sine, im[j] * cosine);
                out_re[j] = shifted_re.fused::<FMA>(level, noise_re[j]);
                out_im[j] = shifted_im.fused::<FMA>(level, noise_im[j]);
            }
        }
    }
}
