"""Field numbers of ``anf_ir.proto``: MindSpore's, and from 1001 Sonde's own.

Tools that know only MindSpore's numbers skip the others.
"""

from __future__ import annotations

from typing import Final

from sonde.core.graph import Kind, Phase

DOMAIN: Final = "sonde"
PHASES: tuple[Phase, ...] = ("forward", "backward", "optimizer")
KINDS: tuple[Kind, ...] = ("op", "parameter", "input", "constant")


class ModelProto:
    IR_VERSION: Final = 1
    DOMAIN: Final = 2
    MODEL_VERSION: Final = 3
    GRAPH: Final = 4


class GraphProto:
    NODE: Final = 1
    NAME: Final = 2
    PARAMETER: Final = 3
    CONSTANT: Final = 5
    ROOT_NAME: Final = 6
    ID: Final = 1001
    SOURCE: Final = 1002


class NodeProto:
    INPUT: Final = 1
    NAME: Final = 2
    OP_TYPE: Final = 3
    SCOPE: Final = 4
    ATTRIBUTE: Final = 5
    OUTPUT_TYPE: Final = 6
    FULL_NAME: Final = 8
    SOURCE_ADDRESS: Final = 9


class ParameterProto:
    NAME: Final = 1
    TYPE: Final = 2


class NamedValueProto:
    KEY: Final = 1
    VALUE: Final = 2
    FULL_NAME: Final = 3


class ExtraFields:
    """Fields of a node that MindSpore lacks; the same in the messages of ops and leaves."""

    POSITION: Final = 1001
    PHASE: Final = 1002
    KIND: Final = 1003
    SOURCES: Final = 1004
    OP_TYPE: Final = 1005
    SCOPE: Final = 1006
    ATTRIBUTE: Final = 1007
    INPUT: Final = 1008
    OUTPUT_TYPE: Final = 1009


class InputProto:
    NAME: Final = 1
    TYPE: Final = 2
    PRODUCER: Final = 1001
    SLOT: Final = 1002
    SPEC: Final = 1003
    PRODUCER_NAME: Final = 1004


class SourceProto:
    FILE: Final = 1
    LINE: Final = 2
    FUNCTION: Final = 3
    CODE: Final = 4


class AttributeProto:
    NAME: Final = 1
    VALUE: Final = 2


class TypeProto:
    DATA_TYPE: Final = 1
    TENSOR: Final = 2
    SEQUENCE: Final = 3


class TensorTypeProto:
    ELEM_TYPE: Final = 1
    SHAPE: Final = 2
    DTYPE_NAME: Final = 1001


SEQUENCE_ELEM_TYPE: Final = 1
SHAPE_DIM: Final = 1
DIM_SIZE: Final = 1


class ValueProto:
    DTYPE: Final = 1
    BOOL: Final = 2
    INT: Final = 3
    UINT: Final = 4
    FLOAT: Final = 5
    DOUBLE: Final = 6
    STR: Final = 7
    TENSOR: Final = 8
    GRAPH: Final = 9
    BOOLS: Final = 10
    INTS: Final = 11
    UINTS: Final = 12
    FLOATS: Final = 13
    DOUBLES: Final = 14
    STRS: Final = 15
    TENSORS: Final = 16
    GRAPHS: Final = 17
    VALUES: Final = 18
    DICT: Final = 19
    TYPE: Final = 20


class TensorProto:
    DIMS: Final = 1
    DATA_TYPE: Final = 2


class DataType:
    STRING: Final = 13
    TENSOR: Final = 14
    TUPLE: Final = 31
    LIST: Final = 32
    DICT: Final = 33
    NONE: Final = 34
