//! Counter-based random numbers keyed by what they are for.
//!
//! A draw is a pure function of a [`Key`] (seed, [`Purpose`], stage, epoch), the index of a
//! [`Stream`] (a sample, a parameter, a layer) and the position in that stream. Nothing depends on
//! which thread or worker asks, nor on the order in which streams are read, and a run resumes from
//! the key alone.
//!
//! Here: the generator ([`philox`]), keys and streams, uniform and normal draws, a permutation from
//! a key, and the one exception, torch's `randperm` ([`torch_randperm`]), which the train/test
//! split needs. Deliberately not here: other distributions, thread-local generators, seeding from
//! the clock or the system.

mod key;
mod mersenne;
mod normal;
mod permutation;
pub mod philox;
mod single;
mod stream;

pub use key::{Key, Purpose};
pub use mersenne::torch_randperm;
pub use permutation::permutation;
pub use stream::Stream;
