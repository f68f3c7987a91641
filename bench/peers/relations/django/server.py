"""The newest issues with assignees, labels and last comments by Django REST framework:
serializers, and `prefetch_related` for one statement a relation. gunicorn runs `application`; the
database's URL is in `DATABASE_URL`."""

import os
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings

url = urlsplit(os.environ["DATABASE_URL"])
settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path.strip("/"),
            "USER": url.username,
            "PASSWORD": unquote(url.password or ""),
            "HOST": url.hostname,
            "PORT": url.port,
            "CONN_MAX_AGE": None,
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["issues", "rest_framework"],
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_PERMISSION_CLASSES": [],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
        "UNAUTHENTICATED_USER": None,
    },
    ROOT_URLCONF=__name__,
)
django.setup()

from django.core.wsgi import get_wsgi_application
from django.db.models import F, Prefetch, Window
from django.db.models.functions import RowNumber
from django.urls import path
from issues.models import Comment, Issue, Label
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView


class NameSerializer(serializers.Serializer):
    name = serializers.CharField()


class CommentSerializer(serializers.ModelSerializer):
    issue = serializers.IntegerField(source="issue_id")
    author = serializers.IntegerField(source="author_id")

    class Meta:
        model = Comment
        fields = ["id", "issue", "author", "body"]


class RelatedSerializer(serializers.Serializer):
    assignee = NameSerializer(allow_null=True)
    labels = NameSerializer(source="labels.all", many=True)
    comment = CommentSerializer(source="last_comments", many=True)


class IssueSerializer(serializers.ModelSerializer):
    assignee = serializers.IntegerField(source="assignee_id")

    class Meta:
        model = Issue
        fields = ["id", "title", "state", "estimate", "assignee"]


class ExpandedSerializer(IssueSerializer):
    expand = RelatedSerializer(source="*")

    class Meta:
        model = Issue
        fields = [*IssueSerializer.Meta.fields, "expand"]


def limit(request):
    return max(1, min(1000, int(request.query_params.get("limit", 100))))


def page(rows, serializer):
    return Response({"rows": serializer(rows, many=True).data, "next": None})


class Plain(APIView):
    def get(self, request):
        return page(Issue.objects.order_by("-id")[: limit(request)], IssueSerializer)


class Expanded(APIView):
    def get(self, request):
        number = Window(RowNumber(), partition_by=F("issue"), order_by=F("id").desc())
        last = Comment.objects.annotate(number=number).filter(number__lte=3)
        rows = Issue.objects.order_by("-id").prefetch_related(
            "assignee",
            Prefetch("labels", Label.objects.order_by("id")),
            Prefetch("comments", last.order_by("-id"), to_attr="last_comments"),
        )
        return page(rows[: limit(request)], ExpandedSerializer)


urlpatterns = [path("issues", Plain.as_view()), path("expanded", Expanded.as_view())]
application = get_wsgi_application()
