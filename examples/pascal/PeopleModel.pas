/// The model of the people server and its client.
unit PeopleModel;

{$mode delphi}{$H+}

interface

uses
  Marmota;

type
  TPeople = class(TMarmotaModel)
  private
    fFirstName, fLastName: RawUtf8;
    fYearOfBirth: Integer;
    fYearOfDeath: Word;
  published
    property FirstName: RawUtf8 index 40 read fFirstName write fFirstName;
    property LastName: RawUtf8 index 40 read fLastName write fLastName;
    property YearOfBirth: Integer read fYearOfBirth write fYearOfBirth;
    property YearOfDeath: Word read fYearOfDeath write fYearOfDeath;
  end;

implementation

end.
