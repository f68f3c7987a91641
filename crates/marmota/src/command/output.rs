//! Output of lines to a standard output that may be closed at any time, as in
//! `program serve | head -1`. `println!` panics in that case.

use std::fmt::{self, Display};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

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
