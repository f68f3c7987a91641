//! The output of the contenders, and medians and ratios over the rounds.

use anyhow::{Context, Result, ensure};
use bench_orm_workload::{Figure, Setting};

/// One figure that one process measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) contender: String,
    pub(crate) setting: Setting,
    /// The number of requested rows.
    pub(crate) rows: u32,
    pub(crate) figure: Figure,
    /// Rows inserted or read per second of wall-clock time.
    pub(crate) rows_per_s: f64,
    /// The number of rows per statement with which this contender inserts batches fastest.
    pub(crate) statement_rows: u64,
    /// The share of the time in which the thread was runnable but another program had the core.
    pub(crate) waited: f64,
    /// CPU time that the hypervisor gave to other machines in the meantime.
    pub(crate) stolen_ms: u64,
}

impl Measurement {
    /// Parses a line that a contender printed.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        Self::read(line).with_context(|| format!("the line {line:?} is not a figure"))
    }

    fn read(line: &str) -> Result<Self> {
        let json: serde_json::Value = serde_json::from_str(line)?;
        let text =
            |name: &str| json[name].as_str().with_context(|| format!("{name} is not a string"));
        let whole =
            |name: &str| json[name].as_u64().with_context(|| format!("{name} is not an integer"));
        let real =
            |name: &str| json[name].as_f64().with_context(|| format!("{name} is not a number"));
        let seconds = real("seconds")?;
        ensure!(seconds > 0.0, "no time passed");
        Ok(Self {
            contender: text("contender")?.to_owned(),
            setting: Setting::parse(text("setting")?).context("the setting is unknown")?,
            rows: u32::try_from(whole("rows")?)?,
            figure: Figure::parse(text("figure")?).context("the figure is unknown")?,
            rows_per_s: whole("done")? as f64 / seconds,
            statement_rows: whole("statement_rows")?,
            waited: real("waited_ms")? / 1e3 / seconds,
            stolen_ms: whole("stolen_ms")?,
        })
    }
}

/// All figures with their rounds, and the failures.
#[derive(Default)]
pub(crate) struct Measurements {
    found: Vec<(u32, Measurement)>,
    failures: Vec<String>,
}

impl Measurements {
    /// Subtracts from each time the part in which another program had the core. On a machine in use
    /// this is more accurate. It does not subtract a wait of a contender for another of its
    /// threads.
    pub(crate) fn without_waits(mut self) -> Self {
        for (_, one) in &mut self.found {
            // The kernel's clock and the program's may differ slightly.
            one.rows_per_s /= 1.0 - one.waited.min(0.99);
        }
        self
    }

    pub(crate) fn add(&mut self, round: u32, found: Vec<Measurement>) {
        self.found.extend(found.into_iter().map(|one| (round, one)));
    }

    pub(crate) fn fail(&mut self, what: String) {
        self.failures.push(what);
    }

    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The settings and numbers of rows that have a table, in the order of measurement.
    pub(crate) fn tables(&self) -> Vec<(Setting, u32)> {
        let mut tables = Vec::new();
        for (_, one) in &self.found {
            if !tables.contains(&(one.setting, one.rows)) {
                tables.push((one.setting, one.rows));
            }
        }
        tables
    }

    /// The measurements of one table.
    pub(crate) fn of(&self, setting: Setting, rows: u32) -> impl Iterator<Item = &Measurement> {
        self.found
            .iter()
            .map(|(_, one)| one)
            .filter(move |one| (one.setting, one.rows) == (setting, rows))
    }

    /// Rows per second: the median of the rounds.
    pub(crate) fn rate(
        &self,
        table: (Setting, u32),
        contender: &str,
        figure: Figure,
    ) -> Option<f64> {
        median(self.rates(table, contender, figure).map(|(_, rate)| rate).collect())
    }

    /// The speed of `contender` divided by that of `other`: the median of the ratios within the
    /// rounds, which a drift of the machine's speed between rounds does not affect.
    pub(crate) fn ratio(
        &self,
        table: (Setting, u32),
        contender: &str,
        other: &str,
        figure: Figure,
    ) -> Option<f64> {
        let others: Vec<_> = self.rates(table, other, figure).collect();
        let ratios = self.rates(table, contender, figure).filter_map(|(round, rate)| {
            let of_round = others.iter().find(|(other_round, _)| *other_round == round);
            of_round.map(|(_, other_rate)| rate / other_rate)
        });
        median(ratios.collect())
    }

    fn rates(
        &self,
        (setting, rows): (Setting, u32),
        contender: &str,
        figure: Figure,
    ) -> impl Iterator<Item = (u32, f64)> {
        let wanted = move |one: &Measurement| {
            one.setting == setting
                && one.rows == rows
                && one.figure == figure
                && one.contender == contender
        };
        self.found
            .iter()
            .filter(move |(_, one)| wanted(one))
            .map(|(round, one)| (*round, one.rows_per_s))
    }
}

/// The median; the mean of the middle two if their number is even.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(contender: &str, seconds: f64) -> String {
        format!(
            r#"{{"contender":"{contender}","setting":"memory","rows":10,"figure":"by id","done":10,"seconds":{seconds},"statement_rows":500,"waited_ms":500.0,"stolen_ms":0}}"#
        )
    }

    #[test]
    fn a_line_is_parsed_and_an_error_names_the_wrong_member() {
        let one = Measurement::parse(&line("floor", 2.0)).unwrap();
        assert_eq!((one.figure, one.rows_per_s, one.waited), (Figure::ReadById, 5.0, 0.25));
        for (from, to, wrong) in [
            ("by id", "by name", "figure is unknown"),
            ("\"memory\"", "7", "setting is not a string"),
            ("2,", "0,", "no time passed"),
        ] {
            let error = Measurement::parse(&line("floor", 2.0).replace(from, to)).unwrap_err();
            assert!(format!("{error:#}").contains(wrong), "{error:#}");
        }
    }

    #[test]
    fn waits_for_the_core_are_subtracted_on_request() {
        let mut all = Measurements::default();
        all.add(0, vec![Measurement::parse(&line("a", 2.0)).unwrap()]);
        let rate = all.without_waits().rate((Setting::Memory, 10), "a", Figure::ReadById).unwrap();
        assert!((rate - 10.0 / 1.5).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut all = Measurements::default();
        // The machine is ten times slower in the second round; the ratio is 2 in each.
        for (round, slower) in [(0, 1.0), (1, 10.0)] {
            for (contender, seconds) in [("a", 1.0), ("b", 2.0)] {
                let one = Measurement::parse(&line(contender, seconds * slower)).unwrap();
                all.add(round, vec![one]);
            }
        }
        let table = (Setting::Memory, 10);
        assert_eq!(all.ratio(table, "a", "b", Figure::ReadById), Some(2.0));
        assert_eq!(all.ratio(table, "a", "c", Figure::ReadById), None);
        assert_eq!(all.rate(table, "a", Figure::ReadById), Some(5.5));
    }
}
