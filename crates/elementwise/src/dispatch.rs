//! Choice of the instruction set at run time.
//!
//! The workspace is compiled for the plain target. A function that carries wider instructions is
//! compiled once more for each [`Level`], and [`dispatch()`] enters the widest one that the
//! machine has. All unsafe code that this needs is in this file; callers write a safe, generic,
//! always inlined body.

/// An instruction set that kernels are compiled for, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every machine of the target has; no fused multiply-add.
    Portable,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// 512-bit vectors with fused multiply-add.
    Avx512,
}

impl Level {
    /// The highest level that this machine has.
    #[inline]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl");
            if avx2 && avx512 {
                return Self::Avx512;
            }
            if avx2 {
                return Self::Avx2;
            }
        }
        Self::Portable
    }
}

/// A computation that is compiled for every [`Level`].
///
/// An implementor holds the arguments. [`Kernel::run`] **must be `#[inline(always)]`**, and so
/// must everything it calls in its loops: only what is inlined is compiled with the wider
/// instructions. The macro [`kernel!`](crate::kernel) writes implementor and call.
pub trait Kernel {
    /// What the computation returns.
    type Output;

    /// The computation; `FMA` says whether fused multiply-add is an instruction here.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// Runs a kernel with the widest instructions of this machine.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    dispatch_at(Level::Avx512, kernel)
}

/// Runs a kernel at the given level, or at the machine's highest if that is lower.
///
/// This serves tests and measurements that compare levels.
#[inline]
pub fn dispatch_at<K: Kernel>(level: Level, kernel: K) -> K::Output {
    match level.min(Level::detect()) {
        #[cfg(target_arch = "x86_64")]
        // Entering a function with wider instructions than the caller's is unsafe by nature.
        #[allow(unsafe_code)]
        // SAFETY: `Level::detect` found every feature that `run_avx512` enables.
        Level::Avx512 => unsafe { x86::run_avx512(kernel) },
        #[cfg(target_arch = "x86_64")]
        // As above.
        #[allow(unsafe_code)]
        // SAFETY: `Level::detect` found every feature that `run_avx2` enables.
        Level::Avx2 => unsafe { x86::run_avx2(kernel) },
        _ => kernel.run::<false>(),
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Kernel;

    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    pub(super) fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<true>()
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<true>()
    }
}

/// Defines a function whose body is compiled for every [`Level`] and chosen at run time.
///
/// The first type parameter is bound by [`Real`](crate::Real) and the second is the constant that
/// the functions of this crate take. Further type parameters with one bound each may follow.
/// What the body calls in its loops must be `#[inline(always)]`.
///
/// ```
/// use dunnart_elementwise::{Activation, Elu, Real, kernel};
///
/// kernel! {
///     /// values = activation(values * scale + shift), in place.
///     pub fn scale_and_activate<T, const FMA, A: Activation>(values: &mut [T], scale: T, shift: T, _activation: A) {
///         for value in values {
///             *value = A::value::<T, FMA>(value.fused::<FMA>(scale, shift));
///         }
///     }
/// }
///
/// let mut values = [1.0_f32, -1.0];
/// scale_and_activate(&mut values, 2.0, 0.5, Elu);
/// assert_eq!(values[0], 2.5);
/// ```
#[macro_export]
macro_rules! kernel {
    (
        $(#[$meta:meta])*
        $visibility:vis fn $name:ident<$real:ident, const $fma:ident $(, $extra:ident: $bound:path)* $(,)?>(
            $($argument:ident: $type:ty),* $(,)?
        ) $body:block
    ) => {
        $crate::kernel! {
            $(#[$meta])*
            $visibility fn $name<$real, const $fma $(, $extra: $bound)*>($($argument: $type),*) -> () $body
        }
    };
    (
        $(#[$meta:meta])*
        $visibility:vis fn $name:ident<$real:ident, const $fma:ident $(, $extra:ident: $bound:path)* $(,)?>(
            $($argument:ident: $type:ty),* $(,)?
        ) -> $output:ty $body:block
    ) => {
        $(#[$meta])*
        $visibility fn $name<$real: $crate::Real $(, $extra: $bound)*>(
            $($argument: $type),*
        ) -> $output {
            // The arguments pass through one always inlined function, so that what the compiler
            // knows about references to slices (that they do not overlap) is not lost in a tuple.
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body<$real: $crate::Real, const $fma: bool $(, $extra: $bound)*>(
                $($argument: $type),*
            ) -> $output $body

            struct Call<Arguments, $real $(, $extra)*>(
                Arguments,
                ::core::marker::PhantomData<($real, $($extra,)*)>,
            );

            impl<$real: $crate::Real $(, $extra: $bound)*> $crate::Kernel
                for Call<($($type,)*), $real $(, $extra)*>
            {
                type Output = $output;

                #[inline(always)]
                fn run<const FUSED: bool>(self) -> Self::Output {
                    let ($($argument,)*) = self.0;
                    body::<$real, FUSED $(, $extra)*>($($argument),*)
                }
            }

            $crate::dispatch(Call(($($argument,)*), ::core::marker::PhantomData::<($real, $($extra,)*)>))
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Real;

    struct Polynomial<'a>(&'a mut [f32]);

    impl Kernel for Polynomial<'_> {
        type Output = bool;

        #[inline(always)]
        fn run<const FMA: bool>(self) -> bool {
            for value in self.0 {
                *value = value.exponential::<FMA>();
            }
            FMA
        }
    }

    #[test]
    fn every_level_gives_the_same_function() {
        let points: Vec<f32> = (0..1000).map(|i| i as f32 * 0.1 - 50.0).collect();
        let mut portable = points.clone();
        assert!(!dispatch_at(Level::Portable, Polynomial(&mut portable)));
        for level in [Level::Avx2, Level::Avx512] {
            let mut values = points.clone();
            let fused = dispatch_at(level, Polynomial(&mut values));
            assert_eq!(fused, Level::detect() > Level::Portable);
            for (value, expected) in values.iter().zip(&portable) {
                assert!((value / expected - 1.0).abs() <= 4.0 * f32::EPSILON);
            }
        }
    }

    #[test]
    fn levels_are_ordered_by_width() {
        assert!(Level::Portable < Level::Avx2 && Level::Avx2 < Level::Avx512);
        assert_eq!(Level::Avx512.min(Level::detect()), Level::detect());
    }

    crate::kernel! {
        /// Sum of scaled values.
        fn scaled_sum<T, const FMA>(values: &[T], scale: T) -> T {
            let mut sum = T::ZERO;
            for value in values {
                sum = value.fused::<FMA>(scale, sum);
            }
            sum
        }
    }

    #[test]
    fn the_macro_passes_arguments_and_result() {
        assert_eq!(scaled_sum(&[1.0_f32, 2.0, 3.0], 0.5), 3.0);
        assert_eq!(scaled_sum(&[1.0_f64, 2.0, 3.0], -1.0), -6.0);
    }
}
