"""Optuna's own tables, which are private to it: the one file that knows them."""

from __future__ import annotations

from optuna.storages._rdb import models

STUDY = models.StudyModel.__table__
DIRECTION = models.StudyDirectionModel.__table__
STUDY_USER = models.StudyUserAttributeModel.__table__
STUDY_SYSTEM = models.StudySystemAttributeModel.__table__
TRIAL = models.TrialModel.__table__
PARAMETER = models.TrialParamModel.__table__
VALUE = models.TrialValueModel.__table__
TRIAL_USER = models.TrialUserAttributeModel.__table__
FINITE = models.TrialValueModel.TrialValueType.FINITE
