"""Spark schemas without a Spark session."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

HEADERS = "array<struct<key:string,value:binary>>"
_TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "char(3)": CharType(3),
    "varchar(9)": VarcharType(9),
    "array<string>": ArrayType(StringType()),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def schema(text: str) -> StructType:
    """Return the schema of `name type, name type`."""
    fields = []
    for column in text.replace("string,value:", "string;value:").split(", "):
        name, _, kind = column.partition(" ")
        fields.append(StructField(name, _TYPES[kind.replace(";", ",")]))
    return StructType(fields)
