/// Marmota for Free Pascal 3.2: stores, models and the HTTP server under one name.
//
// A model is a class with published properties: they make its table. A store is opened by a URL. The
// parts for Delphi are conditional, and were not compiled.
unit Marmota;

{$ifdef FPC}{$mode delphi}{$endif}
{$H+}

interface

uses
  {$ifdef UNIX}cwstring, {$endif}SysUtils, Classes, Math, MarmotaApi, MarmotaModels, MarmotaStores, MarmotaColumns, MarmotaHttp{$ifdef FPC},
  MarmotaServices{$endif};

const
  AS_UNIQUE = MarmotaModels.AS_UNIQUE;
  MARMOTA_NOT_FOUND = MarmotaApi.MARMOTA_NOT_FOUND;
  MARMOTA_CONFLICT = MarmotaApi.MARMOTA_CONFLICT;
  MARMOTA_INVALID = MarmotaApi.MARMOTA_INVALID;

type
  RawUtf8 = MarmotaModels.RawUtf8;
  RawJson = MarmotaModels.RawJson;
  TInt64s = MarmotaModels.TInt64s;
  EMarmota = MarmotaModels.EMarmota;
  EMarmotaHttp = MarmotaHttp.EMarmotaHttp;
  TMarmotaModel = MarmotaModels.TMarmotaModel;
  TMarmotaModelClass = MarmotaModels.TMarmotaModelClass;
  TMarmotaCursor = MarmotaStores.TMarmotaCursor;
  TMarmotaStore = MarmotaStores.TMarmotaStore;
  TMarmotaContext = MarmotaHttp.TMarmotaContext;
  TMarmotaHandler = MarmotaHttp.TMarmotaHandler;
  TMarmotaServer = MarmotaHttp.TMarmotaServer;
  TMarmotaColumns = MarmotaColumns.TMarmotaColumns;
  TMarmotaRows = MarmotaColumns.TMarmotaRows;
  TMarmotaTemplate = MarmotaHttp.TMarmotaTemplate;
  {$ifdef FPC}
  TMarmotaClient = MarmotaServices.TMarmotaClient;
  {$endif}

/// Returns a filter whose ? are replaced by arguments, texts in quotes.
function MarmotaFilter(const Format: RawUtf8; const Args: array of const): RawUtf8;

implementation

function MarmotaFilter(const Format: RawUtf8; const Args: array of const): RawUtf8;
begin
  result := MarmotaModels.MarmotaFilter(Format, Args);
end;

{$ifdef FPC}
type
  TFirstThread = class(TThread)
    procedure Execute; override;
  end;

procedure TFirstThread.Execute;
begin
end;

var
  first: TFirstThread;

initialization
  // A `string` is UTF-8 in every locale, so that RawUtf8 is not converted.
  SetMultiByteConversionCodePage(CP_UTF8);
  // The library computes with floats: an inexact or invalid result is a value, not an exception.
  SetExceptionMask([exInvalidOp, exDenormalized, exZeroDivide, exOverflow, exUnderflow, exPrecision]);
  // The first thread prepares the runtime for threads that it has not started, such as the server's.
  first := TFirstThread.Create(false);
  first.WaitFor;
  first.Free;
{$endif}

end.
