/*
** The values of a row before and after a change, for the hook of changes.rs.
**
** Included by rows.c.
*/

/* Reads a value into a cell. The bytes live as long as the value. */
static void marmota_cell_of(sqlite3_value *value, marmota_Cell *cell){
  cell->storage = (u32)sqlite3_value_type(value);
  switch( cell->storage ){
    case SQLITE_INTEGER:
      cell->value.integer = sqlite3_value_int64(value);
      break;
    case SQLITE_FLOAT:
      cell->value.real = sqlite3_value_double(value);
      break;
    case SQLITE_TEXT:
      cell->value.bytes = sqlite3_value_text(value);
      cell->length = (u32)sqlite3_value_bytes(value);
      break;
    case SQLITE_BLOB:
      cell->value.bytes = sqlite3_value_blob(value);
      cell->length = (u32)sqlite3_value_bytes(value);
      break;
  }
  if( cell->storage>=SQLITE_TEXT && cell->storage<=SQLITE_BLOB && cell->value.bytes==0 ){
    cell->length = 0;
  }
}

/*
** Reads the columns with these numbers of the row that is being changed: as it
** is after the change, or as it was before. For a hook that SQLite is calling.
*/
int marmota_changed_row(
  sqlite3 *db, int after, const int *columns, marmota_Cell *cells, int count
){
  int i;
  for(i=0; i<count; i++){
    sqlite3_value *value = 0;
    int code = after ? sqlite3_preupdate_new(db, columns[i], &value)
                     : sqlite3_preupdate_old(db, columns[i], &value);
    if( code!=SQLITE_OK ) return code;
    marmota_cell_of(value, &cells[i]);
  }
  return SQLITE_OK;
}
