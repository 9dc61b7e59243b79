"""Shipped tables as numbers: tables of one seed, of several, and of two kinds of rows."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tfnewton.campaign import reading, results

OUTPUTS = """method,variant,depth,{seed}x1,target,mean,low,high,rmse
LSA,query in,2,{zero}-1,3,2,1,4,3
LSA,query in,2,{zero}1,5,6,4,7,4
{more}Newton order 2,I/lambda_max,2,{zero}-1,3,2.5,2,3,1
Newton order 2,I/lambda_max,2,{zero}1,5,5.5,5,6,1
"""


def ship(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(results, "table", lambda name: text)


@pytest.mark.parametrize("several", [False, True])
def test_outputs_have_the_seeds_of_the_table(several: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    more = "LSA,query in,2,1,-1,3,20,10,40,6\nLSA,query in,2,1,1,5,60,40,70,8\n" if several else ""
    fields = {"seed": "seed,", "zero": "0,"} if several else {"seed": "", "zero": ""}
    ship(monkeypatch, OUTPUTS.format(more=more, **fields))
    found = reading.outputs("lsa-inside")
    assert list(found) == ["query in", "order 2"]
    of = found["query in"][2]
    assert (of.x1.tolist(), of.target.tolist()) == ([-1.0, 1.0], [3.0, 5.0])
    assert of.mean.tolist() == [[2.0, 6.0], [20.0, 60.0]][: 1 + several]
    assert (of.low[0].tolist(), of.high[0].tolist(), of.rmse[0].tolist()) == ([1.0, 4.0], [4.0, 7.0], [3.0, 4.0])
    assert reading.seeds(found["query in"]) == 1 + several
    assert reading.rms(found["query in"])[2] == pytest.approx([12.5**0.5, 50**0.5][: 1 + several])
    assert reading.rms(found["order 2"])[2] == pytest.approx([1.0])


def test_a_table_of_losses_and_outputs_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(
        monkeypatch,
        "shows,kappa,noise,method,variant,depth,seed,mean,median,trimmed_mean,run,x1,target,low,high,rmse\n"
        'loss,10,0,"LSA+LN, final norm",query in,2,0,9,1,4,a,,,,,\n'
        'loss,10,0,"LSA+LN, final norm",query in,2,1,8,1,5,b,,,,,\n'
        'loss,50,0,"LSA+LN, final norm",query in,2,0,7,1,3,c,,,,,\n'
        'output,,,"LSA+LN, final norm",query in,2,0,0.5,,,,1,2,0,1,3\n'
        'output,,,"LSA+LN, final norm",query in,2,1,0.7,,,,1,2,0,1,4\n'
        "loss,10,0,zero,,0,0,1,1,1,,,,,,\n",
    )
    assert reading.losses("final-norm")["final norm"][2].tolist() == [4.0, 5.0]
    assert reading.losses("final-norm", "mean")["final norm"][2].tolist() == [9.0, 8.0]
    assert reading.outputs("final-norm")["final norm"][2].mean.tolist() == [[0.5], [0.7]]


def test_losses_of_a_shipped_table_by_hand() -> None:
    rows = [r for r in csv.DictReader(results.table("lsa-depth").splitlines()) if r["variant"] == "query out"]
    found = reading.losses("lsa-depth")["query out"]
    for depth, of in found.items():
        assert of.tolist() == [float(r["trimmed_mean"]) for r in rows if r["depth"] == str(depth)]
    assert reading.seeds(found) == len({r["seed"] for r in rows})


def test_refusals() -> None:
    with pytest.raises(ValueError, match="statistic = 'mode': must be one of 'mean'"):
        reading.losses("lsa-depth", "mode")
    with pytest.raises(ValueError, match="experiment = 'loss': must be one of"):
        reading.rows("loss")
    assert np.isfinite(reading.losses("ln-depth")["LayerNorm"][8]).all()
