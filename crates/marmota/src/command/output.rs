//! Output of lines to a standard output that may be closed at any time, as in
//! `program serve | head -1`. `println!` panics in that case. Also the two forms of a result: text with
//! aligned columns, and JSON.

use std::fmt::{self, Display};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

/// The widest column of aligned lines: a longer cell moves those after it.
const COLUMN_CHARS_MAX: usize = 40;

/// The exit code of a program whose standard output was closed while it printed a report: 128 plus
/// the number of SIGPIPE, as a shell shows it for other programs.
pub const OUTPUT_CLOSED_CODE: u8 = 141;

/// An error of a write to standard output. A subcommand that returns it exits with
/// [`OUTPUT_CLOSED_CODE`] and without a message if the output was closed.
#[derive(Debug)]
pub struct OutputError(io::Error);

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output cannot be written: {}", self.0)
    }
}

impl std::error::Error for OutputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Prints a line of a report, which is the purpose of the subcommand.
///
/// ```
/// use marmota::command::{Done, report};
/// fn run() -> Done {
///     report(format_args!("{} rows", 3))?;
///     Ok(std::process::ExitCode::SUCCESS)
/// }
/// # run().unwrap();
/// ```
///
/// # Errors
/// [`OutputError`]. The subcommand returns it, since without a reader the report is useless.
pub fn report(line: impl Display) -> Result<(), OutputError> {
    print(&mut io::stdout().lock(), &line).map_err(OutputError)
}

/// Prints a line about the program's state, such as its address. If standard output is closed, the
/// line is lost and the program continues.
pub fn notice(line: impl Display) {
    let _ = print(&mut io::stdout().lock(), &line);
}

/// Prints a line to standard error. If that is closed, the line is lost and the program continues.
pub fn complain(line: impl Display) {
    let _ = print(&mut io::stderr().lock(), &line);
}

/// The option `--json` of a subcommand that prints a result.
///
/// The JSON is indented and has the same members in each version; new ones may be added. An error is
/// text on standard error in both forms.
///
/// ```
/// use marmota::command::clap::{self, Args, FromArgMatches};
/// use marmota::command::{Done, JsonOutput};
/// use serde_json::json;
///
/// /// Counts something
/// #[derive(Args)]
/// struct Count {
///     #[command(flatten)]
///     output: JsonOutput,
/// }
///
/// fn run(matches: &clap::ArgMatches) -> Done {
///     let count = Count::from_arg_matches(matches)?;
///     count.output.report(|| json!({ "rows": 3 }), || "3 rows".to_owned())?;
///     Ok(std::process::ExitCode::SUCCESS)
/// }
/// # let command = Count::augment_args(clap::Command::new("count"));
/// # run(&command.get_matches_from(["count", "--json"])).unwrap();
/// ```
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct JsonOutput {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl JsonOutput {
    /// Returns true if the result is printed as JSON.
    #[must_use]
    pub const fn is_json(self) -> bool {
        self.json
    }

    /// Prints a result, which is the purpose of the subcommand. An empty text is not printed.
    ///
    /// # Errors
    /// [`OutputError`]. The subcommand returns it.
    pub fn report(
        self,
        json: impl FnOnce() -> Value,
        text: impl FnOnce() -> String,
    ) -> Result<(), OutputError> {
        let printed = if self.json { format!("{:#}", json()) } else { text() };
        if printed.is_empty() { Ok(()) } else { report(printed) }
    }

    /// Prints the result of a change that is made whether or not it can be printed: if standard
    /// output is closed, the result is lost and the program continues.
    pub fn notice(self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        let _ = self.report(json, text);
    }
}

/// Returns lines of cells with aligned columns.
///
/// ```
/// use marmota::command::aligned;
/// let lines = aligned([["1", "ada", ""], ["12", "Emmy", "admin"]]);
/// assert_eq!(lines, "1   ada\n12  Emmy  admin");
/// ```
#[must_use]
pub fn aligned<L>(lines: impl IntoIterator<Item = L>) -> String
where
    L: IntoIterator,
    L::Item: Into<String>,
{
    let lines = lines.into_iter().map(|line| line.into_iter().map(Into::into).collect());
    let lines: Vec<Vec<String>> = lines.collect();
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).min(COLUMN_CHARS_MAX)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let padded = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(padded).collect::<Vec<_>>().join("\n")
}

fn print(out: &mut impl Write, line: &dyn Display) -> io::Result<()> {
    writeln!(out, "{line}")?;
    out.flush()
}

/// Returns the exit code of a program whose subcommand failed. Prints the error, unless the cause
/// is a closed output.
pub(super) fn end_of(name: &str, error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let closed = error
        .downcast_ref::<OutputError>()
        .is_some_and(|OutputError(error)| error.kind() == ErrorKind::BrokenPipe);
    if closed {
        return ExitCode::from(OUTPUT_CLOSED_CODE);
    }
    complain(format_args!("{name}: {error}"));
    ExitCode::FAILURE
}
