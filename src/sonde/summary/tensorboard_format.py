"""Imports from TensorBoard and torch.utils.tensorboard, which have no type annotations."""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto import (  # type: ignore[import-untyped]
    attr_value_pb2,
    event_pb2,
    graph_pb2,
    node_def_pb2,
    tensor_shape_pb2,
    versions_pb2,
)
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]
from torch.utils.tensorboard import summary

Event: Any = event_pb2.Event
GraphDef: Any = graph_pb2.GraphDef
NodeDef: Any = node_def_pb2.NodeDef
AttrValue: Any = attr_value_pb2.AttrValue
TensorShapeProto: Any = tensor_shape_pb2.TensorShapeProto
VersionDef: Any = versions_pb2.VersionDef
records: Any = RecordWriter
"""Frames the bytes of an event and writes them to a stream."""

protos: Any = summary
"""Makes the messages inside events: ``scalar``, ``histogram``, ``image``, ``text``, ``hparams``."""
