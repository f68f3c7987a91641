/*
** SQLite, and two functions that move the values of a whole row in one call.
**
** Through the public interface a row of seven columns takes some twenty calls
** to read and seven to bind, each of which checks the statement anew. Without
** these functions (and the short way of `utf8` in ffi.rs) a list of objects ran
** at 0.77 of the speed of a program in C that knows its columns, and an insert
** of many rows at 0.72; with them at 1.0 and 0.95 (bench/peers/orm/floor). The
** functions here do what those calls do, value by value, and leave to them
** what is rare. They know SQLite's structures, so they are compiled with its
** source (the file MARMOTA_SQLITE_SOURCE), whose version is pinned in Cargo.toml;
** nothing of it is changed.
**
** `raw.rs` declares them; `ffi.rs` is the only one to call them.
*/
#include MARMOTA_SQLITE_SOURCE
#include "durability.c"
#include "budget.c"
#include "pages.c"

#ifdef MARMOTA_CIPHER
#include "cipher.c"
#endif

/* One value. Its twin is `raw::Cell`. */
typedef struct marmota_Cell marmota_Cell;
struct marmota_Cell {
  union {
    i64 integer;
    double real;
    const u8 *bytes;
  } value;
  u32 length;  /* of the bytes */
  u32 storage; /* SQLITE_INTEGER, _FLOAT, _TEXT, _BLOB, _NULL or MARMOTA_JSON */
};

/*
** Reads a value into a cell, if that takes no conversion; returns 0 otherwise.
** The bytes are not copied.
*/
static int marmota_plain_cell(const Mem *mem, marmota_Cell *cell){
  u16 flags = mem->flags;
  if( flags & MEM_Null ){
    cell->storage = SQLITE_NULL;
  }else if( flags & MEM_Int ){
    cell->value.integer = mem->u.i;
    cell->storage = SQLITE_INTEGER;
  }else if( flags & MEM_Real ){
    cell->value.real = mem->u.r;
    cell->storage = SQLITE_FLOAT;
  }else if( (flags & MEM_Str) && mem->enc==SQLITE_UTF8 ){
    cell->value.bytes = (const u8*)mem->z;
    cell->length = (u32)mem->n;
    cell->storage = SQLITE_TEXT;
  }else if( (flags & (MEM_Str|MEM_Blob|MEM_Zero))==MEM_Blob ){
    cell->value.bytes = (const u8*)mem->z;
    cell->length = (u32)mem->n;
    cell->storage = SQLITE_BLOB;
  }else{
    return 0;
  }
  return 1;
}

#include "changes.c"

/* A cell that points to a condition, for the function of `json.rs`: NULL to
** everybody else. */
#define MARMOTA_JSON 6

/*
** Reads the first `count` columns of the row that a statement stands on:
** sqlite3_column_type() and what fits it. The bytes live until the next step.
** Columns that are not there are NULL.
*/
void marmota_row(sqlite3_stmt *statement, marmota_Cell *cells, int count){
  Vdbe *v = (Vdbe*)statement;
  Mem *mem = v->pResultRow;
  int i;
  while( count>0 && (mem==0 || count>v->nResColumn) ){
    cells[--count].storage = SQLITE_NULL;
  }
  for(i=0; i<count; i++, mem++, cells++){
    if( !marmota_plain_cell(mem, cells) ){
      /* A whole number kept for a REAL, a blob of zeros not yet made, a text
      ** of another encoding. The length is asked for first, since that is what
      ** makes the bytes. */
      cells->storage = (u32)sqlite3_column_type(statement, i);
      if( cells->storage==SQLITE_FLOAT ){
        cells->value.real = sqlite3_column_double(statement, i);
      }else{
        cells->length = (u32)sqlite3_column_bytes(statement, i);
        cells->value.bytes = sqlite3_column_blob(statement, i);
        if( cells->value.bytes==0 ) cells->length = 0;
      }
    }
  }
}

/*
** Binds `count` parameters from `first` (counted from 0) on: the
** sqlite3_bind_ function for each, with SQLITE_STATIC.
*/
int marmota_bind(sqlite3_stmt *statement, int first, const marmota_Cell *cells, int count){
  Vdbe *v = (Vdbe*)statement;
  u32 most = (u32)v->db->aLimit[SQLITE_LIMIT_LENGTH];
  Mem *mem;
  int i;
  if( v->eVdbeState!=VDBE_READY_STATE ) return SQLITE_MISUSE;
  if( first<0 || count<0 || first>v->nVar || count>v->nVar-first ) return SQLITE_RANGE;
  /* A plan that was made for the values bound before. */
  if( v->expmask!=0 ) v->expired = 1;
  mem = &v->aVar[first];
  for(i=0; i<count; i++, mem++, cells++){
    if( VdbeMemDynamic(mem) ) sqlite3VdbeMemRelease(mem);
    switch( cells->storage ){
      case SQLITE_INTEGER:
        mem->u.i = cells->value.integer;
        mem->flags = MEM_Int;
        break;
      case SQLITE_FLOAT:
        /* Not a number is NULL. */
        mem->u.r = cells->value.real;
        mem->flags = cells->value.real==cells->value.real ? MEM_Real : MEM_Null;
        break;
      case SQLITE_TEXT:
      case SQLITE_BLOB:
        mem->flags = MEM_Null;
        if( cells->length>most ) return SQLITE_TOOBIG;
        mem->z = (char*)cells->value.bytes;
        mem->n = (int)cells->length;
        mem->enc = SQLITE_UTF8;
        mem->flags = MEM_Static | (cells->storage==SQLITE_TEXT ? MEM_Str : MEM_Blob);
        if( cells->storage==SQLITE_TEXT && ENC(v->db)!=SQLITE_UTF8
         && sqlite3VdbeChangeEncoding(mem, ENC(v->db)) ){
          return SQLITE_NOMEM;
        }
        break;
      case MARMOTA_JSON:
        mem->flags = MEM_Null;
        sqlite3VdbeMemSetPointer(mem, (void*)cells->value.bytes, "marmota_json", 0);
        break;
      default:
        mem->flags = MEM_Null;
    }
  }
  return SQLITE_OK;
}

/*
** The databases that a statement writes to, a bit each: what its transaction
** opcodes say, those of its triggers among them.
*/
u32 marmota_written(sqlite3_stmt *statement){
  Vdbe *v = (Vdbe*)statement;
  u32 written = 0;
  int i;
  for(i=0; i<v->nOp; i++){
    const VdbeOp *op = &v->aOp[i];
    if( op->opcode==OP_Transaction && op->p2!=0 && op->p1>=0 && op->p1<32 ){
      written |= (u32)1 << op->p1;
    }
  }
  return written;
}

static int marmota_ops_write(const VdbeOp *ops, int count, u32 root){
  const VdbeOp *end = ops + count;
  for(; ops<end; ops++){
    if( ops->opcode==OP_OpenWrite && ops->p3==0 && (ops->p5 & OPFLAG_P2ISREG)==0
     && (u32)ops->p2==root ) return 1;
    if( ops->opcode==OP_Clear && ops->p2==0 && (u32)ops->p1==root ) return 1;
  }
  return 0;
}

/*
** True if a statement writes to the table of the main database that begins at
** this page, by itself, by a trigger, or by what a reference does.
*/
int marmota_writes_root(sqlite3_stmt *statement, u32 root){
  Vdbe *v = (Vdbe*)statement;
  const SubProgram *program;
  if( marmota_ops_write(v->aOp, v->nOp, root) ) return 1;
  for(program=v->pProgram; program; program=program->pNext){
    if( marmota_ops_write(program->aOp, program->nOp, root) ) return 1;
  }
  return 0;
}
