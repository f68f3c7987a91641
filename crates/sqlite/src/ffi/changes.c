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

/* The columns of a table whose records are read in place. */
#define MARMOTA_COLUMNS_MAX 160

/*
** Reads columns of a record in place; returns 0 for the rare cases that are
** left to the public functions: a column that was added after the record was
** written, a damaged record. `key` is the value of the row id.
*/
static int marmota_record_cells(
  const u8 *record, u32 size, sqlite3 *db, const Table *table, i64 key,
  const int *columns, marmota_Cell *cells, int count
){
  u32 types[MARMOTA_COLUMNS_MAX], places[MARMOTA_COLUMNS_MAX];
  u32 header, at, place;
  int i, stored = 0;
  if( size==0 ) return 0;
  at = getVarint32(record, header);
  if( header>size ) return 0;
  place = header;
  while( at<header && stored<table->nCol ){
    at += getVarint32(&record[at], types[stored]);
    places[stored] = place;
    place += sqlite3VdbeSerialTypeLen(types[stored]);
    if( at>header || place>size ) return 0;
    stored++;
  }
  for(i=0; i<count; i++){
    int column = columns[i];
    Mem mem;
    if( column==table->iPKey ){
      cells[i].value.integer = key;
      cells[i].storage = SQLITE_INTEGER;
      continue;
    }
    if( column<0 || column>=stored ) return 0;
    mem.db = db;
    mem.enc = ENC(db);
    mem.flags = 0;
    sqlite3VdbeSerialGet(&record[places[column]], types[column], &mem);
    if( (mem.flags & MEM_Int) && table->aCol[column].affinity==SQLITE_AFF_REAL ){
      cells[i].value.real = (double)mem.u.i;
      cells[i].storage = SQLITE_FLOAT;
    }else if( !marmota_plain_cell(&mem, &cells[i]) ){
      return 0;
    }
  }
  return 1;
}

/*
** Reads columns of the row that is being changed where SQLite has them, which
** is what sqlite3_preupdate_new() and _old() copy, each value with memory of
** its own. Returns 0 for what is left to these functions.
*/
static int marmota_changed_in_place(
  sqlite3 *db, int after, const int *columns, marmota_Cell *cells, int count
){
  PreUpdate *change = db->pPreUpdate;
  const Table *table = change->pTab;
  int i;
  if( change->pPk || (table->tabFlags & TF_HasVirtual) || table->nCol>MARMOTA_COLUMNS_MAX ){
    return 0;
  }
  if( !after ){
    BtCursor *cursor = change->pCsr->uc.pCursor;
    u32 available, size = sqlite3BtreePayloadSize(cursor);
    const u8 *record = sqlite3BtreePayloadFetch(cursor, &available);
    /* A long row continues on other pages. */
    if( available<size ) return 0;
    return marmota_record_cells(
      record, size, db, table, change->iKey1, columns, cells, count
    );
  }
  if( change->op==SQLITE_INSERT ){
    const Mem *row = &change->v->aMem[change->iNewReg];
    if( row->flags & MEM_Zero ) return 0;
    return marmota_record_cells(
      (const u8*)row->z, (u32)row->n, db, table, change->iKey2, columns, cells, count
    );
  }
  for(i=0; i<count; i++){
    if( columns[i]==table->iPKey ){
      cells[i].value.integer = change->iKey2;
      cells[i].storage = SQLITE_INTEGER;
    }else if( columns[i]<0 || columns[i]>=change->pCsr->nField
           || !marmota_plain_cell(&change->v->aMem[change->iNewReg+1+columns[i]], &cells[i]) ){
      return 0;
    }
  }
  return 1;
}

/*
** Returns the whole record of the row that is being changed, as it is after an
** insert or as it was before the change, and the size of the record; 0 if it is
** not in one place, or has values that are encoded otherwise. `*key_column` is
** the column of the row id, which is `*key`, or -1.
*/
const u8 *marmota_changed_record(
  sqlite3 *db, int after, u32 *size, i64 *key, int *key_column
){
  PreUpdate *change = db->pPreUpdate;
  const Table *table = change->pTab;
  const u8 *record;
  if( change->pPk || (table->tabFlags & TF_HasVirtual) || ENC(db)!=SQLITE_UTF8 ) return 0;
  *key_column = table->iPKey;
  if( after ){
    const Mem *row = &change->v->aMem[change->iNewReg];
    if( change->op!=SQLITE_INSERT || (row->flags & MEM_Zero) ) return 0;
    record = (const u8*)row->z;
    *size = (u32)row->n;
    *key = change->iKey2;
  }else{
    u32 available;
    BtCursor *cursor = change->pCsr->uc.pCursor;
    *size = sqlite3BtreePayloadSize(cursor);
    record = sqlite3BtreePayloadFetch(cursor, &available);
    if( available<*size ) return 0;
    *key = change->iKey1;
  }
  return record;
}

/*
** Reads the columns with these numbers of the row that is being changed: as it
** is after the change, or as it was before. For a hook that SQLite is calling.
*/
int marmota_changed_row(
  sqlite3 *db, int after, const int *columns, marmota_Cell *cells, int count
){
  int i;
  if( marmota_changed_in_place(db, after, columns, cells, count) ) return SQLITE_OK;
  for(i=0; i<count; i++){
    sqlite3_value *value = 0;
    int code = after ? sqlite3_preupdate_new(db, columns[i], &value)
                     : sqlite3_preupdate_old(db, columns[i], &value);
    if( code!=SQLITE_OK ) return code;
    marmota_cell_of(value, &cells[i]);
  }
  return SQLITE_OK;
}
