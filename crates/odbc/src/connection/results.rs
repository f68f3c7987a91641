//! The rows of a result: in blocks if the size of each column is limited, otherwise one by one.

use marmota_blocking::{ColumnName, Dialect, LendRow, ReadAs, value_of_text};
use marmota_model::{Uuid, Value, ValueForm};
use odbc_api::buffers::{AnyColumnBufferSlice, BufferDesc, ColumnarDynBuffer};
use odbc_api::handles::Statement;
use odbc_api::{Cursor, CursorImpl, CursorRow, DataType, Error, Nullable, ResultSetMetadata};

/// The rows that are fetched together.
const BLOCK_ROWS: usize = 128;
/// The longest text that is fetched in blocks.
const BLOCK_TEXT: usize = 1_000;

/// Passes the rows of a result.
pub(super) fn each<S: Statement>(
    mut cursor: CursorImpl<S>,
    dialect: &Dialect,
    read: ReadAs<'_>,
    take: LendRow<'_>,
) -> Result<(), Error> {
    let width = u16::try_from(cursor.num_result_cols()?).unwrap_or(0);
    let mut forms: Vec<Option<ValueForm>> = match read {
        ReadAs::Forms(forms) => forms.iter().copied().map(Some).collect(),
        ReadAs::Columns(choose) => {
            let mut names = Vec::new();
            for at in 1..=width {
                let shown = cursor.col_name(at)?;
                names.push(ColumnName { shown, table: String::new(), column: String::new() });
            }
            choose(names)
        }
    };
    forms.resize(width.into(), None);
    let mut columns = Vec::new();
    for (at, form) in (1..).zip(forms) {
        columns.push(ResultColumn::of(&mut cursor, at, form, dialect)?);
    }
    match columns.iter().map(|column| column.block).collect::<Option<Vec<BufferDesc>>>() {
        Some(block) if !block.is_empty() => in_blocks(cursor, &columns, block, take),
        _ => one_by_one(cursor, &columns, take),
    }
}

/// How a column is read.
#[derive(Clone, Copy, Debug)]
struct ResultColumn {
    form: Option<ValueForm>,
    /// True if its UUIDs are bytes.
    has_bytes: bool,
    as_type: AsType,
    block: Option<BufferDesc>,
}

/// The type in which the driver returns a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AsType {
    Int,
    Float,
    Bytes,
    Text,
}

impl ResultColumn {
    fn of<S: Statement>(
        cursor: &mut CursorImpl<S>,
        at: u16,
        form: Option<ValueForm>,
        dialect: &Dialect,
    ) -> Result<Self, Error> {
        let has_bytes = !dialect.values.uuid_is_text;
        let of_type = match form {
            Some(ValueForm::Text | ValueForm::Json | ValueForm::Blob) | None => {
                Some(cursor.col_data_type(at)?)
            }
            _ => None,
        };
        let as_type = match (form, &of_type) {
            (Some(ValueForm::Int), _) => AsType::Int,
            (Some(ValueForm::Float), _) => AsType::Float,
            (Some(ValueForm::Blob), _) => AsType::Bytes,
            (Some(ValueForm::Uuid), _) if has_bytes => AsType::Bytes,
            (Some(_), _) => AsType::Text,
            (None, Some(of)) => match of {
                DataType::Integer | DataType::SmallInt | DataType::BigInt | DataType::TinyInt => {
                    AsType::Int
                }
                DataType::Float { .. } | DataType::Real | DataType::Double => AsType::Float,
                DataType::Binary { .. }
                | DataType::Varbinary { .. }
                | DataType::LongVarbinary { .. } => AsType::Bytes,
                _ => AsType::Text,
            },
            (None, None) => AsType::Text,
        };
        // Other drivers report a default instead of the size of a text.
        let has_sizes = dialect.types.varchar_max > 0;
        let size = match of_type {
            Some(DataType::Varchar { length } | DataType::WVarchar { length }) if has_sizes => {
                length.map(usize::from).filter(|&size| size <= BLOCK_TEXT)
            }
            Some(_) => None,
            None => Some(40),
        };
        let block = match as_type {
            AsType::Int => Some(BufferDesc::I64 { nullable: true }),
            AsType::Float => Some(BufferDesc::F64 { nullable: true }),
            AsType::Bytes if form == Some(ValueForm::Uuid) => {
                Some(BufferDesc::Binary { max_bytes: 16 })
            }
            AsType::Bytes => None,
            // A character has at most two units.
            AsType::Text => size.map(|size| BufferDesc::WText { max_str_len: size * 2 }),
        };
        Ok(Self { form, has_bytes, as_type, block })
    }

    fn of_text(&self, text: &str) -> Option<Value> {
        match self.form {
            Some(form) => value_of_text(form, text),
            // Decimals of computed columns are numbers.
            None => Some(Value::Text(text.to_owned())),
        }
    }

    fn of_bytes(&self, bytes: &[u8]) -> Option<Value> {
        match self.form {
            Some(ValueForm::Uuid) if self.has_bytes => {
                Some(Value::Uuid(Uuid::from_slice(bytes).ok()?))
            }
            _ => Some(Value::Blob(bytes.to_vec())),
        }
    }

    fn read(&self, row: &mut CursorRow<'_>, at: u16) -> Result<Option<Value>, Error> {
        Ok(match self.as_type {
            AsType::Int => {
                let mut value = Nullable::<i64>::null();
                row.get_data(at, &mut value)?;
                Some(value.into_opt().map_or(Value::Null, Value::Int))
            }
            AsType::Float => {
                let mut value = Nullable::<f64>::null();
                row.get_data(at, &mut value)?;
                Some(value.into_opt().map_or(Value::Null, Value::Float))
            }
            AsType::Bytes => {
                let mut bytes = Vec::new();
                match row.get_binary(at, &mut bytes)? {
                    true => self.of_bytes(&bytes),
                    false => Some(Value::Null),
                }
            }
            AsType::Text => {
                let mut units = Vec::new();
                match row.get_wide_text(at, &mut units)? {
                    true => String::from_utf16(&units).ok().and_then(|text| self.of_text(&text)),
                    false => Some(Value::Null),
                }
            }
        })
    }

    /// Returns the values of a block.
    fn read_block(&self, slice: AnyColumnBufferSlice<'_>, rows: usize) -> Vec<Option<Value>> {
        let null = Some(Value::Null);
        match self.as_type {
            AsType::Int => slice.as_nullable_slice::<i64>().map_or_else(Vec::new, |slice| {
                slice.map(|value| Some(value.map_or(Value::Null, |&it| Value::Int(it)))).collect()
            }),
            AsType::Float => slice.as_nullable_slice::<f64>().map_or_else(Vec::new, |slice| {
                slice.map(|value| Some(value.map_or(Value::Null, |&it| Value::Float(it)))).collect()
            }),
            AsType::Bytes => slice.as_binary().map_or_else(Vec::new, |slice| {
                let value = |at| slice.get(at).map_or(null.clone(), |bytes| self.of_bytes(bytes));
                (0..rows).map(value).collect()
            }),
            AsType::Text => slice.as_wide_text().map_or_else(Vec::new, |slice| {
                let value = |at| match slice.get(at) {
                    None => null.clone(),
                    Some(units) => {
                        String::from_utf16(units).ok().and_then(|text| self.of_text(&text))
                    }
                };
                (0..rows).map(value).collect()
            }),
        }
    }
}

fn lend(row: &[Option<Value>], take: LendRow<'_>) -> bool {
    let row: Vec<_> = row.iter().map(|value| value.as_ref().map(Value::as_ref)).collect();
    take(&row)
}

fn one_by_one<S: Statement>(
    mut cursor: CursorImpl<S>,
    columns: &[ResultColumn],
    take: LendRow<'_>,
) -> Result<(), Error> {
    let mut next = || -> Result<bool, Error> {
        let Some(mut row) = cursor.next_row()? else { return Ok(false) };
        let mut values = Vec::with_capacity(columns.len());
        for (at, column) in (1..).zip(columns) {
            values.push(column.read(&mut row, at)?);
        }
        Ok(lend(&values, take))
    };
    let done = loop {
        match next() {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // Freeing the statement closes the cursor. Its own close panics after an error of a fetch.
    cursor.into_stmt();
    done
}

fn in_blocks<S: Statement>(
    cursor: CursorImpl<S>,
    columns: &[ResultColumn],
    block: Vec<BufferDesc>,
    take: LendRow<'_>,
) -> Result<(), Error> {
    let mut buffer = ColumnarDynBuffer::from_descs(BLOCK_ROWS, block);
    let mut cursor = cursor.bind_buffer(&mut buffer)?;
    let mut next = || -> Result<bool, Error> {
        let Some(batch) = cursor.fetch_with_truncation_check(true)? else { return Ok(false) };
        let rows = batch.num_rows();
        let mut values: Vec<_> = columns
            .iter()
            .enumerate()
            .map(|(at, column)| column.read_block(batch.column(at), rows).into_iter())
            .collect();
        for _ in 0..rows {
            let row: Vec<_> = values.iter_mut().map(|column| column.next().flatten()).collect();
            if !lend(&row, take) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let done = loop {
        match next() {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // See `one_by_one`.
    cursor.unbind()?.0.into_stmt();
    done
}
