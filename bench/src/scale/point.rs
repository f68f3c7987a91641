//! What is measured at one size, and the curve of these over the sizes.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::growth::Growth;
use crate::http::usage::ProcessUsage;

/// A measured amount.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Amount {
    Time(Duration),
    Bytes(u64),
}

/// An operation at one size.
#[derive(Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) name: Cow<'static, str>,
    /// The growth that is expected of it.
    pub(crate) growth: Growth,
    /// `None` if the engine has no such operation.
    pub(crate) amount: Option<Amount>,
}

/// An operation at all sizes.
pub(crate) struct Curve {
    pub(crate) name: Cow<'static, str>,
    pub(crate) growth: Growth,
    pub(crate) amounts: Vec<Option<Amount>>,
}

impl Amount {
    /// Returns microseconds or bytes.
    pub(crate) fn number(self) -> f64 {
        match self {
            Self::Time(time) => time.as_secs_f64() * 1e6,
            Self::Bytes(bytes) => bytes as f64,
        }
    }

    /// Formats the amount with three digits.
    pub(crate) fn text(self) -> String {
        let (number, unit) = match (self, self.number()) {
            (Self::Time(_), micros) if micros >= 1e6 => (micros / 1e6, "s"),
            (Self::Time(_), micros) if micros >= 1e3 => (micros / 1e3, "ms"),
            (Self::Time(_), micros) => (micros, "µs"),
            (Self::Bytes(_), bytes) if bytes >= 1e6 => (bytes / 1e6, "MB"),
            (Self::Bytes(_), bytes) if bytes >= 1e3 => (bytes / 1e3, "KB"),
            (Self::Bytes(_), bytes) => (bytes, "B"),
        };
        match number {
            100.0.. => format!("{number:.0} {unit}"),
            10.0.. => format!("{number:.1} {unit}"),
            _ => format!("{number:.2} {unit}"),
        }
    }
}

impl Point {
    /// An operation that the engine does not have.
    pub(crate) const fn none(name: &'static str, growth: Growth) -> Self {
        Self { name: Cow::Borrowed(name), growth, amount: None }
    }

    pub(crate) const fn time(name: &'static str, growth: Growth, time: Duration) -> Self {
        Self { name: Cow::Borrowed(name), growth, amount: Some(Amount::Time(time)) }
    }

    pub(crate) const fn bytes(name: &'static str, growth: Growth, bytes: u64) -> Self {
        Self { name: Cow::Borrowed(name), growth, amount: Some(Amount::Bytes(bytes)) }
    }
}

impl Curve {
    pub(crate) fn is_measured(&self) -> bool {
        self.amounts.iter().any(Option::is_some)
    }

    pub(crate) fn numbers(&self) -> Vec<Option<f64>> {
        self.amounts.iter().map(|amount| amount.map(Amount::number)).collect()
    }
}

/// Adds the points of a size to the curves.
pub(crate) fn add(curves: &mut Vec<Curve>, points: Vec<Point>) {
    for (place, Point { name, growth, amount }) in points.into_iter().enumerate() {
        if curves.len() == place {
            curves.push(Curve { name, growth, amounts: Vec::new() });
        }
        curves[place].amounts.push(amount);
    }
}

/// Returns the median time of an operation, which gets the number of its turn.
pub(crate) fn repeated(
    turns: u64,
    mut operation: impl FnMut(u64) -> Result<()>,
) -> Result<Duration> {
    let mut times = Vec::new();
    for turn in 0..turns {
        times.push(once(|| operation(turn))?);
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied().context("no turn")
}

/// Returns the time of an operation.
pub(crate) fn once(operation: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begun = Instant::now();
    operation()?;
    Ok(begun.elapsed())
}

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> Result<u64> {
    Ok(ProcessUsage::of(std::process::id())?.resident_kib * 1024)
}
