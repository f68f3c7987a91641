//! Requests as the server reads them, written into one buffer without copies of the parameters.

use std::io;

use marmota_blocking::timestamp_text;
use marmota_model::Value;
use mysql::consts::{ColumnType, Command};

/// The longest payload of a packet; a longer one would continue in the next.
pub(crate) const PACKET_MAX: usize = 0xff_ff_ff;
/// The bytes of the length and the number of a packet.
pub(crate) const HEAD: usize = 4;
/// The longest text of a value of fixed size.
const SHORT_TEXT: usize = 48;

/// Adds a request to execute a prepared statement.
///
/// # Errors
/// It is longer than a packet.
pub(crate) fn add_execution(
    requests: &mut Vec<u8>,
    statement: u32,
    parameters: &[Value],
) -> io::Result<()> {
    let start = begin(requests, Command::COM_STMT_EXECUTE);
    requests.extend_from_slice(&statement.to_le_bytes());
    // No cursor; one execution.
    requests.extend_from_slice(&[0, 1, 0, 0, 0]);
    if !parameters.is_empty() {
        let nulls = requests.len();
        requests.resize(nulls + parameters.len().div_ceil(8), 0);
        // The types follow.
        requests.push(1);
        for (at, value) in parameters.iter().enumerate() {
            let of = type_of(value);
            if of == ColumnType::MYSQL_TYPE_NULL {
                requests[nulls + at / 8] |= 1 << (at % 8);
            }
            requests.extend_from_slice(&[of as u8, 0]);
        }
        parameters.iter().for_each(|value| add_value(requests, value));
    }
    end(requests, start)
}

/// Sets the statement of a request to execute one.
pub(crate) fn set_statement(execution: &mut [u8], statement: u32) {
    // After the head and the command.
    if let Some(number) = execution.get_mut(HEAD + 1..HEAD + 5) {
        number.copy_from_slice(&statement.to_le_bytes());
    }
}

/// Adds a request to execute a text.
///
/// # Errors
/// It is longer than a packet.
pub(crate) fn add_query(requests: &mut Vec<u8>, sql: &str) -> io::Result<()> {
    let start = begin(requests, Command::COM_QUERY);
    requests.extend_from_slice(sql.as_bytes());
    end(requests, start)
}

/// Adds a request to prepare a statement.
///
/// # Errors
/// It is longer than a packet.
pub(crate) fn add_preparation(requests: &mut Vec<u8>, sql: &str) -> io::Result<()> {
    let start = begin(requests, Command::COM_STMT_PREPARE);
    requests.extend_from_slice(sql.as_bytes());
    end(requests, start)
}

/// Adds a request to close a prepared statement, which has no answer.
pub(crate) fn add_close(requests: &mut Vec<u8>, statement: u32) {
    const LENGTH: u8 = 5;
    requests.extend_from_slice(&[LENGTH, 0, 0, 0, Command::COM_STMT_CLOSE as u8]);
    requests.extend_from_slice(&statement.to_le_bytes());
}

fn begin(requests: &mut Vec<u8>, command: Command) -> usize {
    let start = requests.len();
    requests.extend_from_slice(&[0; HEAD]);
    requests.push(command as u8);
    start
}

/// Sets the length of the packet.
fn end(requests: &mut [u8], start: usize) -> io::Result<()> {
    let length = requests.len() - start - HEAD;
    if length >= PACKET_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    requests[start..start + 3].copy_from_slice(&length.to_le_bytes()[..3]);
    Ok(())
}

const fn type_of(value: &Value) -> ColumnType {
    match value {
        Value::Absent | Value::Null => ColumnType::MYSQL_TYPE_NULL,
        Value::Bool(_) | Value::Int(_) => ColumnType::MYSQL_TYPE_LONGLONG,
        Value::Float(_) => ColumnType::MYSQL_TYPE_DOUBLE,
        _ => ColumnType::MYSQL_TYPE_VAR_STRING,
    }
}

fn add_value(requests: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Absent | Value::Null => {}
        Value::Bool(value) => requests.extend_from_slice(&i64::from(*value).to_le_bytes()),
        Value::Int(value) => requests.extend_from_slice(&value.to_le_bytes()),
        Value::Float(value) => requests.extend_from_slice(&value.to_le_bytes()),
        Value::Text(text) | Value::Json(text) => add_bytes(requests, text.as_bytes()),
        Value::Blob(blob) => add_bytes(requests, blob),
        Value::Uuid(uuid) => add_bytes(requests, uuid.as_bytes()),
        Value::Currency(value) => add_short(requests, |text| value.write(text)),
        Value::Date(date) => add_short(requests, |text| date.write(text)),
        Value::Time(time) => add_short(requests, |text| time.write(text)),
        Value::Timestamp(at) => add_bytes(requests, timestamp_text(*at).as_bytes()),
    }
}

/// Adds bytes after their length.
fn add_bytes(requests: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len() as u64;
    match length {
        0..=0xfa => requests.push(length as u8),
        0xfb..=0xffff => {
            requests.push(0xfc);
            requests.extend_from_slice(&length.to_le_bytes()[..2]);
        }
        0x1_0000..=0xff_ffff => {
            requests.push(0xfd);
            requests.extend_from_slice(&length.to_le_bytes()[..3]);
        }
        _ => {
            requests.push(0xfe);
            requests.extend_from_slice(&length.to_le_bytes());
        }
    }
    requests.extend_from_slice(bytes);
}

/// Adds a text of fewer than 251 bytes.
fn add_short(requests: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = requests.len();
    requests.reserve(SHORT_TEXT);
    requests.push(0);
    write(requests);
    requests[start] = (requests.len() - start - 1) as u8;
}

#[cfg(test)]
mod tests {
    use marmota_model::{Currency, Date, Time, Timestamp, Uuid};
    use mysql_common::packets::ComStmtExecuteRequestBuilder;
    use mysql_common::proto::MySerialize as _;

    use super::*;
    use crate::value::parameter;

    #[test]
    fn a_request_is_the_one_of_the_driver() {
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Int(-7),
            Value::Float(1.5),
            Value::Text("Zürich".to_owned()),
            Value::Json("{}".to_owned()),
            Value::Blob(vec![0xff; 70_000]),
            Value::Text("a".repeat(300)),
            Value::Uuid(Uuid::from_u128(7)),
            Value::Currency(Currency::from_scaled(-12_345)),
            Value::Date(Date::from_days(20_000).unwrap()),
            Value::Time(Time::from_micros(1_500_000).unwrap()),
            Value::Timestamp(Timestamp::from_micros(1_700_000_000_000_001).unwrap()),
            Value::Absent,
        ];
        for values in [&values[..], &values[..1], &[]] {
            let mut own = Vec::new();
            add_execution(&mut own, 9, values).unwrap();
            let cells: Vec<_> = values.iter().map(|value| parameter(value.as_ref())).collect();
            let mut expected = Vec::new();
            ComStmtExecuteRequestBuilder::new(9).build(&cells).0.serialize(&mut expected);
            assert_eq!(own[HEAD..], expected);
            assert_eq!(own[..HEAD], u32::try_from(expected.len()).unwrap().to_le_bytes());
        }
        assert!(add_execution(&mut Vec::new(), 9, &[Value::Blob(vec![0; PACKET_MAX])]).is_err());
    }
}
