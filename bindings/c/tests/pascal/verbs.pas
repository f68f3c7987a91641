/// Uses each verb of the Pascal unit once, and compares what comes back.
program verbs;

{$mode delphi}{$H+}{$codepage utf8}

uses
  cmem, cthreads, SysUtils, Contnrs, Marmota;

type
  TShipment = class(TMarmotaModel)
  private
    fCode: RawUtf8;
    fLabelText: UnicodeString;
    fWeight: Double;
    fPrice: Currency;
    fSent: TDateTime;
    fIsFragile: Boolean;
    fSeal: RawByteString;
  published
    property Code: RawUtf8 index 10 read fCode write fCode stored AS_UNIQUE;
    property LabelText: UnicodeString read fLabelText write fLabelText;
    property Weight: Double read fWeight write fWeight;
    property Price: Currency read fPrice write fPrice;
    property Sent: TDateTime read fSent write fSent;
    property IsFragile: Boolean read fIsFragile write fIsFragile;
    property Seal: RawByteString read fSeal write fSeal;
  end;

var
  store: TMarmotaStore;
  one, two: TShipment;
  list: TObjectList;
  rows: TMarmotaCursor;
  ids: TInt64s;
  i: Integer;

procedure Verify(IsTrue: Boolean; const What: string);
begin
  if not IsTrue then
  begin
    WriteLn('failed: ', What);
    Halt(1);
  end;
end;

procedure Fails(Code: Integer; const Field: RawUtf8);
begin
  try
    store.Add(two);
    Verify(false, 'no error');
  except
    on E: EMarmota do
      Verify((E.Code = Code) and (E.Field = Field), E.Message);
  end;
end;

begin
  store := TMarmotaStore.Create('sqlite:verbs.db', [TShipment]);
  one := TShipment.Create;
  two := TShipment.Create;
  one.Code := 'A-1';
  one.LabelText := 'Größe';
  one.Weight := 1.5;
  one.Price := 12.3456;
  one.Sent := EncodeDate(2026, 11, 27) + EncodeTime(2, 30, 0, 0);
  one.IsFragile := true;
  one.Seal := #0#1#255;
  Verify((store.Add(one) > 0) and (one.ID > 0), 'Add');
  Verify(store.Retrieve(one.ID, two), 'Retrieve');
  Verify((two.Code = 'A-1') and (two.LabelText = one.LabelText) and (two.Weight = 1.5), 'texts');
  Verify((two.Price = one.Price) and (Abs(two.Sent - one.Sent) < 1E-9), 'amounts and times');
  Verify(two.IsFragile and (Length(two.Seal) = 3) and (two.Seal[3] = #255), 'bytes');
  Verify(Pos('"label_text":"Größe"', store.ToJson(one)) > 0, 'UTF-8');
  Verify(Pos('"price":12.3456', store.ToJson(one)) > 0, string(store.ToJson(one)));
  two.ID := 0;
  Fails(MARMOTA_CONFLICT, 'code');
  two.Code := 'a code of more than ten';
  Fails(MARMOTA_INVALID, 'code');
  two.Code := 'A-1';
  two.Weight := 2;
  Verify(store.AddOrUpdate(two) = one.ID, 'AddOrUpdate');
  one.Weight := 3;
  store.Update(one);
  Verify(store.Count(TShipment, 'weight>2.5') = 1, 'Update');
  store.FromJson('{"weight":4.5,"code":"B-2"}', two);
  Verify((two.Weight = 4.5) and (two.Code = 'B-2'), 'FromJson');

  store.BatchStart;
  for i := 1 to 100 do
  begin
    two.ID := 0;
    two.Code := RawUtf8('C-' + IntToStr(i));
    two.Weight := i;
    store.BatchAdd(two);
  end;
  store.BatchDelete(TShipment, one.ID);
  ids := store.BatchSend;
  Verify((Length(ids) = 100) and (ids[99] > ids[0]), 'BatchSend');
  Verify(not store.Retrieve(one.ID, one), 'BatchDelete');
  list := store.RetrieveList(TShipment, MarmotaFilter('weight>? and code!=?', [90.5, 'C-''95']),
    '-weight', 5);
  Verify((list.Count = 5) and (TShipment(list[0]).Weight = 100), 'RetrieveList');
  list.Free;

  store.TransactionBegin;
  Verify(store.DeleteWhere(TShipment, 'weight<=50') = 50, 'DeleteWhere');
  store.RollBack;
  Verify(store.Count(TShipment) = 100, 'RollBack');
  store.TransactionBegin;
  Verify(store.Delete(TShipment, ids[0]) and not store.Delete(TShipment, ids[0]), 'Delete');
  store.Commit;
  Verify(store.Count(TShipment) = 99, 'Commit');
  list := store.RetrieveMany(TShipment, [ids[2], ids[0], ids[1], ids[2]]);
  Verify((list.Count = 3) and (TShipment(list[0]).Code = 'C-3') and
    (TShipment(list[1]).ID = ids[1]) and (TShipment(list[2]).Code = 'C-3'), 'RetrieveMany');
  list.Free;
  list := store.RetrieveMany(TShipment, []);
  Verify(list.Count = 0, 'RetrieveMany without IDs');
  list.Free;

  rows := store.Query('SELECT code, weight FROM shipment WHERE weight > ? ORDER BY weight', [98]);
  Verify(rows.Next and (rows.ColumnName(0) = 'code') and (rows.Text(0) = 'C-99'), 'Query');
  Verify(rows.Next and (rows.Float(1) = 100) and not rows.Next, 'Next');
  rows.Free;
  Verify(store.Execute('UPDATE shipment SET weight = ? WHERE code = ?', [7, 'C-99']) = 1, 'Execute');
  one.Free;
  two.Free;
  store.Free;
  WriteLn('ok');
end.
