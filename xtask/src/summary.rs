//! The summary of a command with several steps: which passed, failed or were not run, and why. A step
//! that is not run counts as failed, unless `--allow-not-run NAME` names it.

use std::time::Instant;

use crate::step::Failure;

/// The result of a step.
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    NotRun(String),
}

/// The results so far.
pub(crate) struct Summary<'a> {
    title: &'static str,
    allowed: &'a [&'a str],
    lines: Vec<String>,
    faults: Vec<&'static str>,
}

impl<'a> Summary<'a> {
    pub(crate) const fn new(title: &'static str, allowed: &'a [&'a str]) -> Self {
        Self { title, allowed, lines: Vec::new(), faults: Vec::new() }
    }

    /// Runs a step and records its result.
    pub(crate) fn run(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> Result<Outcome, Failure>,
    ) {
        eprintln!("==> {} {name}", self.title);
        let started = Instant::now();
        let outcome = step().unwrap_or_else(|error| Outcome::Failed(error.to_string()));
        let seconds = started.elapsed().as_secs();
        let line = match outcome {
            Outcome::Passed => format!("{name}: passed ({seconds} s)"),
            Outcome::NotRun(why) if self.allowed.contains(&name) => {
                format!("{name}: not run, as allowed: {why}")
            }
            Outcome::NotRun(why) => {
                self.faults.push(name);
                format!("{name}: not run: {why}")
            }
            Outcome::Failed(why) => {
                self.faults.push(name);
                format!("{name}: failed ({seconds} s): {why}")
            }
        };
        self.lines.push(line);
    }

    pub(crate) const fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Prints the summary.
    ///
    /// # Errors
    /// The names of the steps that failed or were not run.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        println!("\n{}:", self.title);
        self.lines.iter().for_each(|line| println!("  {line}"));
        match self.faults.is_empty() {
            true => Ok(()),
            false => Err(Failure(format!("failed or not run: {}", self.faults.join(", ")))),
        }
    }
}

/// Splits a command's arguments into the names after `--allow-not-run` and the others.
pub(crate) fn allowed<'w>(words: &[&'w str]) -> Result<(Vec<&'w str>, Vec<&'w str>), Failure> {
    let (mut allowed, mut rest) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match (*word, words.as_slice().first()) {
            ("--allow-not-run", None) => {
                return Err(Failure("--allow-not-run takes a name".to_owned()));
            }
            ("--allow-not-run", Some(name)) => {
                allowed.push(*name);
                words.next();
            }
            (word, _) => rest.push(word),
        }
    }
    Ok((allowed, rest))
}

/// Returns an error for a name that no step has.
pub(crate) fn check_names(allowed: &[&str], names: &[&str]) -> Result<(), Failure> {
    match allowed.iter().find(|name| !names.contains(*name)) {
        None => Ok(()),
        Some(unknown) => {
            Err(Failure(format!("no step is called {unknown}; the steps are {}", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_not_run_fails_unless_it_is_allowed() {
        let missing = || Ok(Outcome::NotRun("no Go".to_owned()));
        let mut summary = Summary::new("tests", &["http2"]);
        summary.run("http2", missing);
        assert!(!summary.has_faults());
        summary.run("tls", missing);
        summary.run("units", || Ok(Outcome::Passed));
        summary.run("fuzz", || Err(Failure("a crash".to_owned())));
        assert_eq!(summary.finish().unwrap_err().0, "failed or not run: tls, fuzz");
    }

    #[test]
    fn allowed_names_are_taken_out_of_the_arguments() {
        let (names, rest) = allowed(&["--allow-not-run", "tls", "scan"]).unwrap();
        assert_eq!((names, rest), (vec!["tls"], vec!["scan"]));
        assert!(allowed(&["--allow-not-run"]).is_err());
        assert!(check_names(&["tls"], &["tls", "http2"]).is_ok());
        assert!(check_names(&["tsl"], &["tls", "http2"]).is_err());
    }
}
