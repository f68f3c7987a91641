"""The tables that Marmota's program has filled."""

from django.db import models


class Person(models.Model):
    name = models.TextField()

    class Meta:
        db_table = "person"
        managed = False


class Label(models.Model):
    name = models.TextField()

    class Meta:
        db_table = "label"
        managed = False


class Issue(models.Model):
    title = models.TextField()
    state = models.TextField()
    estimate = models.BigIntegerField()
    assignee = models.ForeignKey(
        Person, models.CASCADE, null=True, db_column="assignee"
    )
    labels = models.ManyToManyField(Label, through="IssueLabel")

    class Meta:
        db_table = "issue"
        managed = False


class IssueLabel(models.Model):
    issue = models.ForeignKey(Issue, models.CASCADE, db_column="issue")
    label = models.ForeignKey(Label, models.CASCADE, db_column="label")

    class Meta:
        db_table = "issue_label"
        managed = False


class Comment(models.Model):
    issue = models.ForeignKey(
        Issue, models.CASCADE, db_column="issue", related_name="comments"
    )
    author = models.ForeignKey(Person, models.CASCADE, db_column="author")
    body = models.TextField()

    class Meta:
        db_table = "comment"
        managed = False
