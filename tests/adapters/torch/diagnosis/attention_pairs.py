"""Pairs about the masks of attention."""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

_READER = """
        label = y
        ids = torch.randint(1, 12, (256, 9)) + 12 * label[:, None]
        ids[torch.arange(9)[None] >= torch.randint(3, 9, (256, 1))] = 0
        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.emb, self.out = nn.Embedding(40, 16), nn.Linear(16, 2)
                MADE
            def forward(self, ids):
                h = self.emb(ids)
                CALL
                return self.out(h[:, 0])
        model = Reader(); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(ids[i]), label[i]).backward(); opt.step()
"""
_WHOLE = "h = self.attn(h, h, h, key_padding_mask=ids != 0, need_weights=False)[0]"
_FUSED = "h = F.scaled_dot_product_attention(h, h, h, attn_mask=(ids == 0)[:, None])"
_SCORES = "h = (h @ h.transpose(1, 2)).masked_fill((ids != 0)[:, None], -1e9).softmax(-1) @ h"
_TWICE = "h = ((h @ h.mT).softmax(-1) * (ids != 0)[:, None]).softmax(-1) @ h"
_ADDED = (
    "empty = ids[:, :1] % 5 == 0; m = ((ids == 0) | empty)[:, None] * torch.finfo(h.dtype).min; "
    "h = (h @ h.mT + (m + m)).softmax(-1) @ h"
)

_ATTENTION = "self.attn = nn.MultiheadAttention(16, 2, batch_first=True)"


def _reader(call: str, made: str = "pass") -> str:
    return _READER.replace("CALL", call).replace("MADE", made)


ATTENTION = [
    Pair("mask-sense-inverted", _reader(_WHOLE, _ATTENTION), "ids != 0,", "ids == 0,"),
    Pair("mask-sense-inverted", _reader(_FUSED), "(ids == 0)", "(ids != 0)"),
    Pair("mask-sense-inverted", _reader(_SCORES), "(ids != 0)", "(ids == 0)"),
    Pair("double-mask", _reader(_TWICE), ".softmax(-1) * ", ".mul(0.1) * "),
    Pair("double-mask", _reader(_ADDED), "m + m", "m"),
]
